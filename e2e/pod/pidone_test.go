//go:build pod

package pod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// proxied is pod a as Kubernetes would have it: the image's pod-init has run, and its agent is process one.
type proxied struct {
	*mesh
	*container
	a, c  *workload
	certs string
}

func newProxied(t *testing.T, l limits, flags ...string) *proxied {
	t.Helper()
	i := built(t, "proxy")
	m := newMesh(t, false, "REDIRECT", "")
	p := &proxied{mesh: m, a: m.pods["a"], c: m.pods["c"], certs: filepath.Join(m.dir, "certs")}

	init := m.run(p.a.Netns, "init", i, limits{user: 0, capabilities: []string{"CAP_NET_ADMIN"}, shm: "64k", cpus: 1},
		"/usr/local/bin/pod-init", "--verify")
	if code, err := init.Wait(30 * time.Second); err != nil || code != 0 || !strings.Contains(init.Log(),
		"verified: dialled 192.0.2.1") {
		t.Fatalf("pod-init in its image: status %d, %v:\n%s", code, err, init.Log())
	}

	check(t, os.Mkdir(p.certs, 0o755))
	p.rotate(1)
	l.user = proxyUID
	l.mounts = []object{{"destination": "/etc/certs", "type": "bind", "source": p.certs, "options": []string{
		"rbind",
		"ro",
	}}}
	l.env = []string{"POD_NAME=a", "POD_NAMESPACE=default", "INSTANCE_IP=" + p.a.ip, `ISTIO_METAJSON_LABELS={"app":"a"}`}
	argv := append(append([]string{}, i.config.Config.Entrypoint...), i.config.Config.Cmd...)
	p.container = m.run(p.a.Netns, "proxy", i, l, append(append(argv,
		"--discoveryAddress", m.family().discovery+":15010", "--certRotation", "restart",
		"--drainDuration", "1s", "--parentShutdownDuration", "2s"), flags...)...)
	return p
}

// rotate gives the proxy a certificate of that serial number.
func (p *proxied) rotate(serial int64) {
	t := p.a.mesh.t
	t.Helper()
	authority, err := lab.NewAuthority("mesh")
	check(t, err)
	identity, err := authority.Issue("a.default.svc.cluster.local", serial)
	check(t, err)
	check(t, identity.Mount(p.certs))
	check(t, filepath.WalkDir(p.certs, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, proxyUID, proxyUID)
	}))
}

func (p *proxied) awaitReady() {
	t := p.a.mesh.t
	t.Helper()
	check(t, lab.Eventually(30*time.Second, func() error {
		_, err := p.a.Netns.Get("http://127.0.0.1:15020/healthz/ready")
		return err
	}))
}

// As process one of a pod the agent brings Envoy up, has no privilege, buries orphans, hands over, and drains.
func TestProcessOne(t *testing.T) {
	p := newProxied(t, limits{shm: "64k", memory: 256 << 20, cpus: 1})
	began := time.Now()
	p.awaitReady()
	t.Logf("ready %s after the test asked", time.Since(began).Round(time.Millisecond))
	agent, err := p.container.pid()
	check(t, err)
	envoy := lab.Children(agent)
	if len(envoy) != 1 {
		t.Fatalf("the agent has children %v, want one Envoy", envoy)
	}
	for _, pid := range []int{agent, envoy[0]} {
		for field, want := range map[string]string{
			"Uid": "1337\t1337\t1337\t1337", "CapEff": "0000000000000000", "CapPrm": "0000000000000000",
			"CapBnd": "0000000000000000", "NoNewPrivs": "1",
		} {
			if got := status(pid, field); got != want {
				t.Errorf("process %d: %s is %q, want %q", pid, field, got, want)
			}
		}
	}
	if n := strings.Fields(status(agent, "NSpid")); n[len(n)-1] != "1" {
		t.Errorf("the agent is process %v, want 1 in its own namespace", n)
	}
	if n := workers(envoy[0]); n != 1 {
		t.Errorf("Envoy has %d workers, want 1: the limit is one processor", n)
	}
	if output, err := p.container.exec("/bin/sh", "-c", "echo x >/usr/local/bin/x"); err == nil ||
		!strings.Contains(output, "Read-only") {
		t.Errorf("the root can be written: %v %s", err, output)
	}

	t.Run("orphans are buried", func(t *testing.T) {
		output, err := p.container.exec("/bin/sh", "-c", "for i in 1 2 3 4 5; do (/bin/busybox sleep 600 >/dev/null 2>&1 & ) ; done")
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		for _, want := range []int{1 + 5, 1} {
			var all []int
			check(t, lab.Eventually(stopLimit, func() error {
				if all = lab.Children(agent); len(all) != want {
					return fmt.Errorf("the agent has %d children, want %d with its Envoy", len(all), want)
				}
				return nil
			}))
			for _, pid := range all {
				if pid != envoy[0] {
					check(t, syscall.Kill(pid, syscall.SIGKILL))
				}
			}
		}
	})

	t.Run("hot restart", func(t *testing.T) {
		load := p.load()
		p.rotate(2)
		check(t, lab.Eventually(30*time.Second, func() error {
			now := lab.Children(agent)
			if len(now) != 1 || now[0] == envoy[0] {
				return fmt.Errorf("the agent has children %v, had %v", now, envoy)
			}
			return nil
		}))
		check(t, lab.Eventually(stopLimit, func() error { // a handover may be over before
			if n := load.requests.Load(); n < 100 {
				return fmt.Errorf("%d requests were answered, want 100", n)
			}
			return nil
		}))
		requests, failures := load.stop()
		t.Logf("%d requests, %d failed", requests, len(failures))
		if len(failures) > 0 || requests < 100 {
			t.Errorf("of %d requests these failed: %q", requests, failures[:min(len(failures), 5)])
		}
		if log := p.container.Log(); !strings.Contains(log, "why=hot") {
			t.Errorf("the handover was not hot:\n%s", log)
		}
	})

	t.Run("an upgrade", func(t *testing.T) {
		before, load := lab.Children(agent), p.load()
		for n := 1; n <= 4; n++ {
			output, err := p.container.exec("/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do (/bin/busybox sleep 0.0$i & ) ; done")
			if err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			check(t, syscall.Kill(agent, syscall.SIGUSR2))
			check(t, lab.Eventually(30*time.Second, func() error {
				text, err := p.a.Netns.Get("http://127.0.0.1:15020/status")
				if err == nil && !strings.Contains(text, fmt.Sprintf(`"count": %d`, n)) {
					err = fmt.Errorf("no upgrade %d: %s", n, text)
				}
				return err
			}))
			check(t, lab.Eventually(stopLimit, func() error { // orphans that ended while the agent was replaced are buried too
				if now := lab.Children(agent); len(now) != 1 || now[0] != before[0] {
					return fmt.Errorf("the agent has children %v, want its Envoy %v", now, before)
				}
				return nil
			}))
		}
		if got := status(agent, "NoNewPrivs") + status(agent, "CapEff") + status(agent, "Uid"); got != "1"+"0000000000000000"+"1337\t1337\t1337\t1337" {
			t.Errorf("the agent has %q", got)
		}
		requests, failures := load.stop()
		if len(failures) > 0 || requests == 0 {
			t.Errorf("of %d requests these failed: %q", requests, failures[:min(len(failures), 5)])
		}
	})

	t.Run("TERM drains", func(t *testing.T) {
		began := time.Now()
		answered := make(chan error, 1)
		client := p.c.Client(app, nil)
		client.Timeout = stopLimit
		go func() {
			response, err := client.Get("http://" + p.a.ip + ":8080/?held")
			if err == nil {
				_, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			answered <- err
		}()
		check(t, lab.Eventually(stopLimit, func() error {
			if n := p.a.stat(`^cluster\.inbound\|8080\|\|\.upstream_rq_active$`); n != 1 {
				return fmt.Errorf("%d requests are under way", n)
			}
			return nil
		}))
		check(t, p.container.runc("kill", p.container.id, "TERM").Run())
		check(t, lab.Eventually(stopLimit, func() error {
			if _, err := p.a.Netns.Get("http://127.0.0.1:15020/healthz/ready"); err == nil {
				return errors.New("the agent is ready after TERM")
			}
			return nil
		}))
		close(p.a.held)
		code, err := p.container.Wait(stopLimit)
		check(t, err)
		if code != 0 {
			t.Errorf("exit status %d, want 0", code)
		}
		if err := <-answered; err != nil {
			t.Errorf("the request under way: %v", err)
		}
		t.Logf("gone %s after the request began", time.Since(began).Round(time.Millisecond))
	})
}

// An Envoy that the kernel ends for its memory is told apart from one that crashed. Both come back.
func TestOutOfMemoryIsToldApart(t *testing.T) {
	p := newProxied(t, limits{shm: "64k", memory: 256 << 20, cpus: 1})
	p.awaitReady()
	agent, err := p.container.pid()
	check(t, err)
	die := func(how func(envoy int), want string) {
		t.Helper()
		envoy := lab.Children(agent)[0]
		before := strings.Count(p.container.Log(), want)
		how(envoy)
		check(t, lab.Eventually(30*time.Second, func() error {
			if strings.Count(p.container.Log(), want) == before {
				return fmt.Errorf("the agent does not say %q", want)
			}
			if now := lab.Children(agent); len(now) != 1 || now[0] == envoy {
				return fmt.Errorf("the agent has children %v", now)
			}
			return nil
		}))
		p.awaitReady()
	}
	die(func(envoy int) { check(t, syscall.Kill(envoy, syscall.SIGKILL)) }, "oom_killed=false")
	die(func(envoy int) {
		p.tighten(agent, envoy)
		p.crowd(envoy)
		check(t, p.limit(256<<20))
	}, "oom_killed=true")
}

func (p *proxied) limit(bytes int64) error {
	return p.container.runc("update", "--memory", fmt.Sprint(bytes), "--memory-swap", fmt.Sprint(bytes),
		p.container.id).Run()
}

// tighten leaves the container little more memory than its processes have.
func (p *proxied) tighten(pids ...int) {
	var bytes int64
	for _, pid := range pids {
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(status(pid, "RssAnon"), " kB"), 10, 64)
		bytes += kilobytes << 10
	}
	for extra := int64(1); extra < 64; extra++ { // the kernel refuses a limit that it cannot come down to
		if p.limit(bytes+extra<<20) == nil {
			p.container.t.Logf("limited to %d bytes", bytes+extra<<20)
			return
		}
	}
	p.container.t.Fatalf("no limit near %d bytes is taken", bytes)
}

// crowd opens connections, each with a request half sent, until the Envoy is gone.
func (p *proxied) crowd(envoy int) {
	t := p.container.t
	t.Helper()
	request := append([]byte("GET / HTTP/1.1\r\nHost: a\r\nx: "), bytes.Repeat([]byte("x"), 40_000)...)
	for n := range 5_000 {
		if !lab.Alive(envoy) {
			t.Logf("out of memory after %d connections", n)
			return
		}
		c, err := p.c.Dial(app, "tcp", p.a.ip+":8080", stopLimit)
		if err != nil {
			continue // Envoy is going, or gone
		}
		defer c.Close()
		_, _ = c.Write(request)
	}
	t.Fatal("Envoy lives with 5000 connections")
}

// load is requests from c to a's program, through a's proxy.
type load struct {
	stopped  chan struct{}
	done     chan struct{}
	requests atomic.Int64
	failures []string
}

func (p *proxied) load() *load {
	l := &load{stopped: make(chan struct{}), done: make(chan struct{})}
	client := p.c.Client(app, nil)
	go func() {
		defer close(l.done)
		for {
			select {
			case <-l.stopped:
				return
			case <-time.After(2 * time.Millisecond):
			}
			response, err := client.Get("http://" + p.a.ip + ":8080/")
			if err == nil {
				_, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			if err == nil && response.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %s", response.Status)
			}
			if err != nil {
				l.failures = append(l.failures, err.Error())
				continue
			}
			l.requests.Add(1)
		}
	}()
	return l
}

func (l *load) stop() (int64, []string) {
	close(l.stopped)
	<-l.done
	return l.requests.Load(), l.failures
}
