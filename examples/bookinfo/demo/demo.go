package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = time.Minute      // for everything to be ready
	stopGrace    = 10 * time.Second // for one phase to leave after SIGTERM
	pollInterval = 50 * time.Millisecond
)

// demo is one running plan.
type demo struct {
	options
	plan
	started [][]*process  // by phase
	ended   chan *process // each process once, when it is gone
	stdout  io.Writer
}

// run runs the mesh until ctx is done. It returns when every process that it started is gone; an error says why the
// mesh did not come up, or did not stay.
func run(ctx context.Context, o options, stdout io.Writer) (err error) {
	d := &demo{options: o, plan: newPlan(o), stdout: stdout}
	if err := d.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(err == nil)) }()
	if err := d.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it was up
		}
		return err
	}
	if err := d.help(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case p := <-d.ended:
		return p.explain()
	}
}

// prepare makes the run folder, and the copy of the configuration where the addresses are others.
func (d *demo) prepare() error {
	if err := os.MkdirAll(d.run, 0o755); err != nil {
		return err
	}
	d.ended = make(chan *process, len(slices.Concat(d.phases...)))
	if d.plan.config == d.options.config {
		return nil
	}
	if d.further != "" {
		if err := copyConfig(d.further, d.plan.config, d.addresses); err != nil {
			return err
		}
	}
	if d.consulAt == "" {
		return copyConfig(d.options.config, d.plan.config, d.addresses)
	}
	if err := d.consulThere(); err != nil {
		return err
	}
	if err := os.WriteFile(d.consulAt, d.services, 0o644); err != nil {
		return err
	}
	if err := copyConfig(d.options.config, d.plan.config, d.addresses, ".default.svc.cluster.local", "."+consulDomain); err != nil {
		return err
	}
	return os.Remove(filepath.Join(d.plan.config, "services.yaml")) // Consul has them
}

// copyConfig copies the YAML files of from to a new folder, their addresses moved to another prefix, and with further texts replaced,
// given as pairs.
func copyConfig(from, to, addresses string, further ...string) error {
	replace := strings.NewReplacer(append([]string{defaultAddresses, addresses}, further...)...)
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: holds no *.yaml file", from)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(replace.Replace(string(text))), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// start brings up one phase after another, and last the page.
func (d *demo) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for i, phase := range d.phases {
		d.started = append(d.started, nil)
		for _, s := range phase {
			p, err := start(s, d.run, d.ended)
			if err != nil {
				return err
			}
			last := len(d.started) - 1
			d.started[last] = append(d.started[last], p)
		}
		for _, s := range phase {
			if err := d.await(ctx, s.name, s.ready); err != nil {
				return err
			}
		}
		if i == 0 {
			if err := makeTokens(ctx, d.tokens); err != nil {
				return err
			}
		}
	}
	return d.await(ctx, "the product page", d.page+"/api/v1/products/0")
}

// await waits until url answers 200, a process ends, or ctx is done.
func (d *demo) await(ctx context.Context, name, url string) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		found := probe(ctx, url)
		if found == nil {
			return nil
		}
		select {
		case p := <-d.ended:
			return p.explain()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; logs are in %s", name, found, d.run)
		case <-tick.C:
		}
	}
}

// probe asks url once, on a connection of its own: a kept one would outlive whom it was made for.
func probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// stop ends what was started, last phase first. After a clean run only the logs stay.
func (d *demo) stop(clean bool) error {
	var killed []string
	for _, phase := range slices.Backward(d.started) {
		killed = append(killed, stop(phase, stopGrace)...)
	}
	if len(killed) > 0 {
		return fmt.Errorf("stop: killed after %v: %s", stopGrace, strings.Join(killed, ", "))
	}
	if !clean {
		return nil // what the agents wrote may explain it
	}
	fmt.Fprintf(d.stdout, "\nStopped. The logs stay in %s.\n", d.run)
	return d.cleanUp()
}

// cleanUp removes what the mesh needed only while it ran.
func (d *demo) cleanUp() error {
	var err error
	for _, s := range d.sidecars {
		err = errors.Join(err, os.RemoveAll(s.ConfigPath))
	}
	if d.plan.config != d.options.config {
		err = errors.Join(err, os.RemoveAll(d.plan.config))
	}
	if d.consulAt != "" {
		err = errors.Join(err, os.Remove(d.consulAt))
	}
	if d.ca != "" {
		err = errors.Join(err, os.RemoveAll(d.ca))
	}
	return err
}

// ingress is the gateway that has the page where the sidecars take mutual TLS alone.
const ingress = "ingress"

// token is a command that prints a join token, and the file for it.
type token struct {
	argv []string
	file string
}

func (o options) caDir() string { return filepath.Join(o.run, "ca") }

func (o options) tokenFile(account string) string { return filepath.Join(o.caDir(), account+".token") }

// tokens are those of the accounts, one for all instances of a service.
func (o options) joinTokens() (out []token) {
	for i, w := range workloads {
		if i == 0 || workloads[i-1].app != w.app {
			out = append(out, o.token(w.app))
		}
	}
	return append(out, o.token(ingress))
}

func (o options) token(account string) token {
	return token{[]string{
		filepath.Join(o.bin, "discovery"), "token", "create", "--namespace", "default", "--service-account", account, "--caDir", o.caDir(),
	}, o.tokenFile(account)}
}

func (o options) gateway() spec {
	return o.proxy(len(workloads), "router", ingress, ingress, fmt.Sprintf(`{"app":%q}`, ingress))
}

// makeTokens runs the commands, once discovery has made the authority.
func makeTokens(ctx context.Context, tokens []token) error {
	for _, t := range tokens {
		command := exec.CommandContext(ctx, t.argv[0], t.argv[1:]...)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		text, err := command.Output()
		if err != nil {
			return fmt.Errorf("make %s: %w: %s", t.file, err, stderr.Bytes())
		}
		if err := os.WriteFile(t.file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// strict is what to try with the policies, nil where there are none.
func (d *demo) strict() (map[string]string, error) {
	if !d.mtls {
		return nil, nil
	}
	policy, err := locate(filepath.Join(d.plan.config, "policies.yaml"), "principals:")
	return map[string]string{
		"Reviews": fmt.Sprintf("http://%s:%d/reviews/0", d.ip(2), servicePort), "Policy": policy,
		"Details": loopback(outboundPort + 1 + d.offset), "Productpage": loopback(outboundPort + d.offset),
	}, err
}

// process is a child that was started, and its log.
type process struct {
	spec
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the child is gone and reaped; err is set by then
	err  error
}

// start runs s with its output in run/name.log and sends it to ended when it is gone. The child has a process group of
// its own, so that a terminal's Ctrl-C reaches the demo only, and gets SIGTERM should the demo be killed.
func start(s spec, run string, ended chan<- *process) (*process, error) {
	p := &process{spec: s, log: filepath.Join(run, s.name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(s.argv[0], s.argv[1:]...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, s.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
		ended <- p
	}()
	return p, nil
}

// stop ends the processes together: SIGTERM, then SIGKILL for those that outstay grace. It returns when all are reaped
// and names those that had to be killed.
func stop(processes []*process, grace time.Duration) (killed []string) {
	for _, p := range processes {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when it is gone, which is what we want
	}
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	expired := false
	for _, p := range processes {
		if !expired {
			select {
			case <-p.done:
				continue
			case <-timeout.C:
				expired = true
			}
		}
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Kill()
			<-p.done
			killed = append(killed, p.name)
		}
	}
	return killed
}

// explain says how the process ended, with the last lines that it wrote.
func (p *process) explain() error {
	const lines = 15
	text, err := os.ReadFile(p.log)
	if err != nil {
		text = []byte(err.Error())
	}
	last := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	end := bytes.Join(last[max(0, len(last)-lines):], []byte("\n"))
	return fmt.Errorf("%s ended by itself: %v; the end of %s:\n%s", p.name, p.cmd.ProcessState, p.log, end)
}
