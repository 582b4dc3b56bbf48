package lab

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Lab holds the paths of the binaries, and a directory for the files of all processes.
type Lab struct {
	Bin   string // agent, discovery, bookinfo, demo
	Envoy string
	Dir   string
}

// Discovery is a running `discovery serve`.
type Discovery struct {
	*Process
	GRPC, HTTP, Monitoring string // host:port
	spec                   Spec
}

// Discovery serves a directory of configuration on free ports, and returns once it is ready.
// Everything is on one machine, so it has --loopbackEndpoints; a later flag may take that back.
func (l Lab) Discovery(configDir string, flags ...string) (*Discovery, error) {
	d := &Discovery{}
	for _, address := range []*string{&d.GRPC, &d.HTTP, &d.Monitoring} {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	d.spec = Spec{Name: "discovery", Dir: l.Dir, Argv: append([]string{
		filepath.Join(l.Bin, "discovery"), "serve", "--configDir", configDir, "--loopbackEndpoints",
		"--grpcAddr", d.GRPC, "--httpAddr", d.HTTP, "--monitoringAddr", d.Monitoring,
	}, flags...)}
	return d, d.Restart()
}

// Restart starts discovery, again, on the same ports, and waits until it is ready.
func (d *Discovery) Restart() error {
	if err := d.Start(); err != nil {
		return err
	}
	return d.AwaitHTTP(30*time.Second, "http://"+d.HTTP+"/ready")
}

// Start is Restart without the wait.
func (d *Discovery) Start() (err error) {
	d.Process, err = Start(d.spec)
	return err
}

// Workload describes a sidecar and the program beside it.
type Workload struct {
	Role      string // "sidecar" if empty
	Name      string // unique; the node's id is Name.default
	App       string // label app, and the service cluster
	Version   string // label version
	IP        string // its own loopback address
	ProxyPort int    // of outbound HTTP; 0 for none
	AdminPort int    // of the agent's front; 0 for a free one
	Discovery string // host:port
	Flags     []string
	Env       []string
	Call      []string // the words that start the agent; empty for the path in Bin

	Stdout, Stderr *os.File // of the agent; nil for its log
}

// Sidecar is a running `agent proxy sidecar`.
type Sidecar struct {
	*Process
	Admin      string // host:port of the agent's front
	ConfigPath string
}

// LastGood is the pattern of the file in configPath in which an agent remembers the configuration that its Envoy has accepted.
const LastGood = "last-good-????????????????"

// LastGood returns that file, and an error while there is none.
func (s *Sidecar) LastGood() (string, error) {
	found, err := filepath.Glob(filepath.Join(s.ConfigPath, LastGood))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("files of the last good configuration in %s: %q, %w", s.ConfigPath, found, err)
	}
	return found[0], nil
}

// Sidecar starts an agent without waiting for its Envoy.
func (l Lab) Sidecar(w Workload) (*Sidecar, error) {
	port, err := w.AdminPort, error(nil)
	if port == 0 {
		port, err = FreePort()
	}
	if err != nil {
		return nil, err
	}
	s := &Sidecar{Admin: fmt.Sprintf("127.0.0.1:%d", port), ConfigPath: filepath.Join(l.Dir, w.Name)}
	call := w.Call
	if len(call) == 0 {
		call = []string{filepath.Join(l.Bin, "agent")}
	}
	argv := slices.Concat(call, []string{
		"proxy", cmp.Or(w.Role, "sidecar"),
		"--ip", w.IP, "--id", w.Name + ".default", "--domain", "default.svc.cluster.local",
		"--serviceregistry", "Other", "--serviceCluster", w.App,
		"--configPath", s.ConfigPath, "--binaryPath", l.Envoy, "--discoveryAddress", w.Discovery,
		"--proxyAdminPort", strconv.Itoa(port), "--concurrency", "1",
	})
	env := []string{
		"ISTIO_META_INTERCEPTION_MODE=NONE",
		fmt.Sprintf(`ISTIO_METAJSON_LABELS={"app":%q,"version":%q}`, w.App, w.Version),
	}
	if w.ProxyPort != 0 {
		env = append(env, fmt.Sprintf("ISTIO_META_HTTP_PROXY_PORT=%d", w.ProxyPort))
	}
	s.Process, err = Start(Spec{
		Name: w.Name + "-agent", Dir: l.Dir, Env: append(env, w.Env...), Argv: append(argv, w.Flags...),
		Stdout: w.Stdout, Stderr: w.Stderr,
	})
	return s, err
}

// AwaitReady waits until the sidecar's Envoy serves.
func (s *Sidecar) AwaitReady() error {
	if err := s.AwaitHTTP(30*time.Second, "http://"+s.Admin+"/ready"); err != nil {
		return err
	}
	return AwaitWorkers(s.Admin)
}

// AwaitWorkers waits until an Envoy listens, whose admin is at host:port: it reports that it is ready shortly before its workers do.
func AwaitWorkers(admin string) error {
	const started = "listener_manager.workers_started"
	return Eventually(30*time.Second, func() error {
		stats, err := Stats(admin, "^"+started+"$")
		if err == nil && stats[started] != 1 {
			err = fmt.Errorf("of the Envoy with the admin %s %s is %d", admin, started, stats[started])
		}
		return err
	})
}

// Envoy returns the process id of the sidecar's only Envoy.
func (s *Sidecar) Envoy() (int, error) {
	children := Children(s.Pid)
	if len(children) != 1 {
		return 0, fmt.Errorf("%s (pid %d) has children %v, want one Envoy", s.Name, s.Pid, children)
	}
	return children[0], nil
}

// AwaitHTTP waits until url answers 200, or the process ends.
func (p *Process) AwaitHTTP(limit time.Duration, url string) error {
	err := Eventually(limit, func() error {
		select {
		case <-p.done:
			return nil
		default:
			_, err := Get(url)
			return err
		}
	})
	select {
	case <-p.done:
		code, _ := p.Wait(0)
		return fmt.Errorf("%s ended with status %d:\n%s", p.Name, code, p.Log())
	default:
	}
	if err != nil {
		return fmt.Errorf("%s: %w:\n%s", p.Name, err, p.Log())
	}
	return nil
}

// Trial is a test that starts programs, in a directory and at loopback addresses of its own. The programs are stopped
// at the end of the test, and their logs are shown if the test has failed.
type Trial struct {
	Lab
	T         *testing.T
	Addresses string // prefix of its loopback addresses, which lacks the last number
}

// NewTrial returns the Trial of a test.
func NewTrial(t *testing.T) *Trial {
	t.Helper()
	return &Trial{Lab: New(t.TempDir()), T: t, Addresses: Addresses()}
}

// Check ends the test with an error, if there is one.
func (t *Trial) Check(err error) {
	t.T.Helper()
	if err != nil {
		t.T.Fatal(err)
	}
}

// Serve starts discovery with a directory of configuration, "" for none.
func (t *Trial) Serve(config string, flags ...string) *Discovery {
	t.T.Helper()
	d, err := t.Discovery(config, append([]string{"--shutdownDuration", "2s"}, flags...)...)
	t.Check(err)
	t.StopAtEnd("discovery", d)
	return d
}

// StopAtEnd stops a program at the end of the test.
func (t *Trial) StopAtEnd(name string, p interface {
	Stop(limit time.Duration) int
	Log() string
},
) {
	t.T.Cleanup(func() {
		p.Stop(StopLimit)
		if t.T.Failed() {
			t.T.Logf("%s:\n%s", name, Tail(p.Log()))
		}
	})
}

// Unharmed ends a load, and fails the test if a request of it has failed.
func (t *Trial) Unharmed(load *Load) {
	t.T.Helper()
	n, failures := load.Stop()
	if n == 0 || len(failures) > 0 {
		t.T.Errorf("%d requests were answered, %d failed, such as %q", n, len(failures), failures[:min(3, len(failures))])
	}
	t.T.Logf("%d requests, answered by %v", n, load.Bodies())
}

// Tail returns the end of a log.
func Tail(log string) string {
	const most = 8_000
	return log[max(0, len(log)-most):]
}
