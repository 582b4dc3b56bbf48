package agent

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// outage is an agent that remembers, with an Envoy that discovery configures, and discovery that goes away.
type outage struct {
	*world
	agent *lab.Sidecar
	ip    string
	ports [3]int // of Envoy's outbound HTTP, the agent's status, and its front of the admin
	http  string // host:port of Envoy's outbound HTTP
	port  string // of the agent's status
}

// startOutage starts discovery with one service, reviews.test at the backend one, and an agent that has remembered it.
func startOutage(t *testing.T, w *world, flags ...string) *outage {
	t.Helper()
	o := newOutage(t, w)
	o.start(flags...)
	o.remembered()
	return o
}

// newOutage starts discovery with that service, and no agent.
func newOutage(t *testing.T, w *world) *outage {
	t.Helper()
	o := &outage{world: w, ip: w.Address(), ports: [3]int{lab.Port(t), lab.Port(t), lab.Port(t)}}
	o.http, o.port = fmt.Sprintf("127.0.0.1:%d", o.ports[0]), fmt.Sprint(o.ports[1])
	w.Service("reviews.test", w.Backend("one"))
	return o
}

// start starts the agent, which is the same to discovery each time.
func (o *outage) start(flags ...string) {
	o.T.Helper()
	o.launch(flags...)
	o.Check(o.agent.AwaitReady())
	o.answers("one")
}

// launch starts the agent, and does not wait.
func (o *outage) launch(flags ...string) {
	o.T.Helper()
	admin := fmt.Sprint(o.ports[2])
	agent, err := o.Sidecar(lab.Workload{
		Name: "client", App: "client", IP: o.ip, ProxyPort: o.ports[0], Discovery: o.Discovery.GRPC,
		Flags: append([]string{"--lastGood", "on", "--statusPort", o.port, "--proxyAdminPort", admin}, flags...),
	})
	o.Check(err)
	agent.Admin = "127.0.0.1:" + admin
	if i := slices.Index(flags, "--configPath"); i >= 0 {
		agent.ConfigPath = flags[i+1]
	}
	o.agent = agent
	o.T.Cleanup(func() {
		agent.Stop(lab.StopLimit)
		if o.T.Failed() {
			o.T.Log(tail(agent.Log(), 60))
		}
	})
}

// remembered waits until the file is there.
func (o *outage) remembered() {
	o.T.Helper()
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		_, err := o.agent.LastGood()
		return err
	}))
}

// remembers waits until the Envoy that serves has its own configuration remembered.
func (o *outage) remembers() {
	o.T.Helper()
	const metric = "pilotlight_agent_last_good_recorded_timestamp_seconds "
	began := time.Now()
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		text, err := lab.Get("http://127.0.0.1:" + o.port + "/metrics")
		if err != nil {
			return err
		}
		_, value, _ := strings.Cut(text, "\n"+metric)
		value, _, _ = strings.Cut(value, "\n")
		seconds, err := strconv.ParseFloat(value, 64)
		if err == nil && seconds < float64(began.UnixMilli())/1000 {
			err = fmt.Errorf("what an Envoy would get is of %s, want of %d at least", value, began.Unix())
		}
		return err
	}))
}

// leave ends discovery at once.
func (o *outage) leave() {
	o.T.Helper()
	o.Discovery.Signal(syscall.SIGKILL)
	_, err := o.Discovery.Wait(lab.StopLimit)
	o.Check(err)
}

// answers waits until Envoy sends requests to a backend, and returns how long that took, to 10 ms.
func (o *outage) answers(backend string) time.Duration {
	o.T.Helper()
	began := time.Now()
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		text, err := lab.GetThrough(o.http, "http://reviews.test/")
		if err == nil && !strings.Contains(text, `"Backend":"`+backend+`"`) {
			err = fmt.Errorf("want an answer of %s: %s", backend, text)
		}
		return err
	}))
	return time.Since(began)
}

// crash kills Envoy, and returns how long it took until another one served.
func (o *outage) crash() time.Duration {
	o.T.Helper()
	pid, err := o.agent.Envoy()
	o.Check(err)
	o.Check(syscall.Kill(pid, syscall.SIGKILL))
	return o.answers("one")
}

// says waits until a page of the status port has a text.
func (o *outage) says(path, want string) {
	o.T.Helper()
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		text, err := lab.Get("http://127.0.0.1:" + o.port + path)
		if err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("%s has no %q:\n%s", path, want, text)
		}
		return err
	}))
}

// An Envoy that is killed while discovery is away serves what the one before it served, and takes discovery's changes when
// that is back, without a restart.
func TestAnEnvoyThatStartsWhileDiscoveryIsAway(t *testing.T) {
	t.Parallel()
	o := startOutage(t, newWorld(t))
	two := o.Backend("two")
	o.leave()
	t.Logf("killed, and serving again after %v", o.crash())
	o.says("/healthz/ready?verbose", "serves the configuration of 20")
	o.says("/healthz/ready?verbose", `discovery is away (`)
	o.says("/metrics", "pilotlight_agent_last_good_timestamp_seconds 1")
	o.says("/metrics", "pilotlight_agent_discovery_connected 0")
	pid, err := o.agent.Envoy()
	o.Check(err)
	o.Service("reviews.test", two)
	o.Check(o.Discovery.Restart())
	t.Logf("discovery is back, and its change in force after %v", o.answers("two"))
	o.says("/metrics", "pilotlight_agent_discovery_connected 1")
	o.Check(lab.Eventually(lab.StopLimit, func() error { // Envoy serves a change before it acknowledges it
		text, err := lab.Get("http://127.0.0.1:" + o.port + "/metrics")
		if err == nil && strings.Contains(text, "last_good_timestamp") {
			err = errors.New("the last good configuration is still told of")
		}
		return err
	}))
	if after, err := o.agent.Envoy(); err != nil || after != pid {
		t.Errorf("Envoy %d has been restarted: %d, %v", pid, after, err)
	}
}
