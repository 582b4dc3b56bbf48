//go:build pod

package pod

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// sharedDir is a volume as Kubernetes mounts one into several containers: root's, mode 0777.
type sharedDir struct {
	t          *testing.T
	configPath string
	victim     string // a file of the agent's user, outside
	custom     string // the bootstrap that the agent is given
	bystander  *lab.Process
	// forgedRecord is one of a killed agent whose child the bystander was.
	forgedRecord string
	admin        int
	agent        *lab.Process
}

func newSharedDir(t *testing.T) *sharedDir {
	t.Helper()
	needs(t, "setpriv")
	dir, err := os.MkdirTemp("", "pilotlight-neighbour-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	s := &sharedDir{t: t, configPath: filepath.Join(dir, "shared"), victim: filepath.Join(dir, "victim"), custom: filepath.Join(dir, "custom.json")}
	check(t, os.Mkdir(s.configPath, 0o777))
	check(t, os.Chmod(s.configPath, 0o777))
	check(t, os.WriteFile(s.victim, []byte("precious"), 0o600))
	check(t, os.Chown(s.victim, proxyUID, proxyUID))
	s.write("one")
	s.bystander, err = lab.Start(lab.Spec{Name: "bystander", Dir: dir, Argv: s.as(proxyUID, "sleep", "600")})
	check(t, err)
	t.Cleanup(func() { s.bystander.Stop(stopLimit) })
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	check(t, err)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.bystander.Pid))
	check(t, err)
	_, fields, _ := strings.Cut(string(stat), ") ")
	s.forgedRecord = fmt.Sprintf(`{"agent":1,"boot":%q,"children":[{"pid":%d,"start":%s,"family":1000000}]}`,
		strings.TrimSpace(string(boot)), s.bystander.Pid, strings.Fields(fields)[19])
	return s
}

func (s *sharedDir) as(uid int, argv ...string) []string {
	id := strconv.Itoa(uid)
	return append([]string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups"}, argv...)
}

// write gives the agent another bootstrap, which names it.
func (s *sharedDir) write(name string) {
	s.t.Helper()
	temp := s.custom + ".new"
	text := fmt.Sprintf(`{"node":{"id":%q,"cluster":"c"},"static_resources":{}}`, name)
	check(s.t, os.WriteFile(temp, []byte(text), 0o644))
	check(s.t, os.Rename(temp, s.custom))
}

// start starts the agent as the proxy's user.
func (s *sharedDir) start() {
	t := s.t
	t.Helper()
	port, err := lab.FreePort()
	check(t, err)
	s.admin = port
	s.agent, err = lab.Start(lab.Spec{
		Name: "agent", Dir: filepath.Dir(s.configPath), Work: "/",
		Argv: s.as(proxyUID, lab.Program("agent"), "proxy", "sidecar", "--ip", "127.0.0.1", "--id", "a.default", "--domain", "d",
			"--serviceregistry", "Other", "--configPath", s.configPath, "--binaryPath", lab.Envoy(), "--customConfigFile", s.custom,
			"--proxyAdminPort", strconv.Itoa(port), "--statusPort", "0", "--concurrency", "1",
			"--drainDuration", "1s", "--parentShutdownDuration", "2s"),
	})
	check(t, err)
	t.Cleanup(func() { s.agent.Stop(stopLimit) })
}

// awaitNode waits until the Envoy behind the agent has this bootstrap.
func (s *sharedDir) awaitNode(name string) {
	s.t.Helper()
	err := lab.Eventually(30*time.Second, func() error {
		info, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/server_info", s.admin))
		if err == nil && (!strings.Contains(info, fmt.Sprintf(`"id": %q`, name)) || !strings.Contains(info, `"state": "LIVE"`)) {
			err = fmt.Errorf("Envoy has another bootstrap, want %q:\n%s", name, info)
		}
		return err
	})
	if err != nil {
		s.t.Fatalf("%v:\n%s", err, s.agent.Log())
	}
}

// unharmed holds what is not the agent's, and that the agent serves.
func (s *sharedDir) unharmed(node string) {
	s.t.Helper()
	s.awaitNode(node)
	if text, err := os.ReadFile(s.victim); string(text) != "precious" || err != nil {
		s.t.Errorf("the victim's file has %q, %v", text, err)
	}
	select {
	case <-s.bystander.Done():
		s.t.Error("a process that is not the agent's was ended")
	default:
	}
}

// names are all that the agent makes in its directory, read from one that works; each with a pattern for the next numbers.
func agentFiles() []string {
	names := []string{"agent.lock", "agent.sock", "sds.sock", "flight", ".envoy-0", "envoy-check-1.json", "envoy-check.json"}
	for epoch := range 4 {
		names = append(names, fmt.Sprintf("envoy-rev%d.json", epoch), fmt.Sprintf("admin-rev%d.sock", epoch))
	}
	for n := range 8 {
		names = append(names, fmt.Sprintf("agent-%d", n))
	}
	return names
}

// ways to make a name that the agent will want. The other file is one that the attacker may write to.
var ways = map[string]func(s *sharedDir, path, other string) error{
	"a link to a file":      func(s *sharedDir, path, _ string) error { return os.Symlink(s.victim, path) },
	"a link to nothing":     func(_ *sharedDir, path, _ string) error { return os.Symlink("/nowhere/at/all", path) },
	"a link to a directory": func(s *sharedDir, path, _ string) error { return os.Symlink(filepath.Dir(s.victim), path) },
	"a pipe": func(_ *sharedDir, path, _ string) error {
		return errors.Join(syscall.Mkfifo(path, 0o666), os.Chmod(path, 0o666))
	},
	"a directory": func(_ *sharedDir, path, _ string) error {
		return errors.Join(os.Mkdir(path, 0o777), os.Chmod(path, 0o777), os.WriteFile(filepath.Join(path, "full"), nil, 0o666))
	},
	"another name": func(_ *sharedDir, path, other string) error { return os.Link(other, path) },
	"a huge file": func(_ *sharedDir, path, _ string) error {
		return errors.Join(os.WriteFile(path, nil, 0o666), os.Truncate(path, 1<<40), os.Chmod(path, 0o666))
	},
	"a forged record": func(s *sharedDir, path, _ string) error {
		return errors.Join(os.WriteFile(path, []byte(s.forgedRecord), 0o666), os.Chmod(path, 0o666))
	},
	"a forged bootstrap": func(_ *sharedDir, path, _ string) error {
		return errors.Join(os.WriteFile(path, []byte(forgedBootstrap), 0o666), os.Chmod(path, 0o666))
	},
	"a socket": func(_ *sharedDir, path, _ string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return errors.Join(os.Chmod(path, 0o777), l.Close())
	},
}

const forgedBootstrap = `{"node":{"id":"forged","cluster":"c"},"static_resources":{}}`

// Another user of the pod has made every name that the agent will want, before it starts: the agent starts, serves its own
// bootstrap, hands over, writes nothing through them, and says what it found.
func TestANeighbourIsThereFirst(t *testing.T) {
	for way, make := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newSharedDir(t)
			check(t, app.As(func() error {
				other := filepath.Join(s.configPath, "other")
				err := os.WriteFile(other, nil, 0o666)
				for _, name := range append([]string{"private-0", "private-1"}, agentFiles()...) {
					err = errors.Join(err, make(s, filepath.Join(s.configPath, name), other))
				}
				return err
			}))
			before := s.list()
			s.start()
			s.unharmed("one")
			s.write("two")
			s.unharmed("two")
			if log := s.agent.Log(); !strings.Contains(log, "others may write to configPath") ||
				!strings.Contains(log, "private-0") || !strings.Contains(log, "name of a slot is taken") {
				t.Errorf("the log does not say what the agent found:\n%s", log)
			}
			if status := s.agent.Stop(stopLimit); status != 0 {
				t.Errorf("the agent ends with status %d:\n%s", status, s.agent.Log())
			}
			if after := s.list(); after != before {
				t.Errorf("the agent has changed what is there, from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// list is all that is in configPath, with its mode, size and owner.
func (s *sharedDir) list() string {
	s.t.Helper()
	output, err := exec.Command("ls", "-lAR", "--time-style=full-iso", s.configPath).CombinedOutput()
	check(s.t, err)
	return string(output)
}

// harass does to each entry of configPath what a user who may write there can do, again and again, and counts what came of it.
func (s *sharedDir) harass(stop <-chan struct{}, r *rand.Rand) map[string]int {
	done := map[string]int{}
	attempt := func(what string, err error) {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			what += ": " + errno.Error()
		}
		done[what]++
	}
	inner := append(agentFiles(), "hot_parent_1", "flight")
	for {
		select {
		case <-stop:
			return done
		default:
		}
		entries, _ := os.ReadDir(s.configPath)
		names := []string{"private-0", "private-1"}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		for _, name := range names {
			path := filepath.Join(s.configPath, name)
			file := filepath.Join(path, inner[r.IntN(len(inner))])
			attempt("write a file in it", os.WriteFile(file, []byte(forgedBootstrap), 0o666))
			attempt("remove a file in it", os.Remove(file))
			_, err := os.ReadDir(path)
			attempt("list it", err)
			attempt("chmod it", os.Chmod(path, 0o777))
			attempt("remove it", os.Remove(path))
			attempt("rename it", os.Rename(path, filepath.Join(s.configPath, fmt.Sprintf("x%d", r.IntN(20)))))
			if r.IntN(2) == 0 {
				attempt("put a link there", os.Symlink(filepath.Dir(s.victim), path))
			} else {
				attempt("put a directory there", os.Mkdir(path, 0o777))
				for _, name := range agentFiles() {
					attempt("put a forged file there", os.WriteFile(filepath.Join(path, name), []byte(forgedBootstrap), 0o666))
				}
			}
			if r.IntN(3) == 0 {
				attempt("clear it", os.RemoveAll(path))
			}
		}
	}
}

// Another user renames, replaces and removes all that is in configPath while the agent starts, hands over, restarts a killed
// Envoy and stops.
func TestANeighbourNeverRests(t *testing.T) {
	s := newSharedDir(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	stop, result := make(chan struct{}), make(chan map[string]int, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- app.As(func() error {
			result <- s.harass(stop, rand.New(rand.NewPCG(seed, 0)))
			return nil
		})
	}()
	s.start()
	s.unharmed("one")
	s.write("two")
	s.unharmed("two")
	children := lab.Children(s.agent.Pid)
	if len(children) == 0 {
		t.Fatalf("the agent has no Envoy:\n%s", s.agent.Log())
	}
	check(t, syscall.Kill(children[len(children)-1], syscall.SIGKILL))
	check(t, lab.Eventually(30*time.Second, func() error {
		if strings.Contains(s.agent.Log(), "flight record") {
			return nil
		}
		return errors.New("no flight record is written")
	}))
	s.unharmed("two")
	s.write("three")
	s.unharmed("three")
	close(stop)
	check(t, <-ended)
	done := <-result
	t.Logf("the attacker: %v", done)
	for _, what := range []string{"rename it", "put a link there", "put a forged file there"} {
		if done[what] == 0 {
			t.Errorf("the attacker could not %s: this shows nothing", what)
		}
	}
	if status := s.agent.Stop(stopLimit); status != 0 {
		t.Errorf("the agent ends with status %d:\n%s", status, s.agent.Log())
	}
	if log := s.agent.Log(); strings.Contains(log, "forged") {
		t.Errorf("Envoy has read what another wrote:\n%s", log)
	}
}
