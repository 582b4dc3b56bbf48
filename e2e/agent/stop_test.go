package agent

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// slow sends a request that takes three seconds through a listener; its end is sent on the channel.
func (s *standalone) slow(address string) <-chan error { return send(address, "/slow?3s") }

// send sends a request to which the program answers "ok".
func send(address, path string) <-chan error { return sendBy(fresh, address, path) }

// sendBy is send by a client with a limit of its own.
func sendBy(client *http.Client, address, path string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		response, err := client.Get("http://" + address + path)
		if err == nil {
			var body []byte
			body, err = io.ReadAll(response.Body)
			response.Body.Close()
			if err == nil && string(body) != "ok" {
				err = fmt.Errorf("%s: %q", response.Status, body)
			}
		}
		ended <- err
	}()
	return ended
}

// withOutbound adds a listener without a direction of its own beside the inbound one.
func withOutbound(s *standalone) (address string) {
	port, err := lab.FreePort()
	s.must(err)
	address = fmt.Sprintf("%s2:%d", lab.Addresses(), port)
	s.mutate = func(text string) string {
		from := strings.Index(text, `{
      "name": "inbound"`)
		to := strings.Index(text, `],
    "clusters"`)
		outbound := strings.NewReplacer(`"inbound"`, `"outbound"`, `"INBOUND"`, `"OUTBOUND"`, lab.SocketAddress(s.address), lab.SocketAddress(address)).
			Replace(text[from:to])
		return text[:to] + ", " + outbound + text[to:]
	}
	return address
}

// After TERM or INT to the agent or to the whole process group, requests in flight are answered, inbound and outbound,
// new ones too until then; right after, the agent is gone with status 0.
func TestStopFinishesTheWork(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(s *standalone){
		"SIGTERM":              func(s *standalone) { s.Signal(syscall.SIGTERM) },
		"SIGINT":               func(s *standalone) { s.Signal(syscall.SIGINT) },
		"SIGTERM to the group": func(s *standalone) { s.must(syscall.Kill(-s.Pid, syscall.SIGTERM)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandalone(t)
			outbound := withOutbound(s)
			s.configure(1)
			s.launch("--terminationDrainDuration", "60s")
			s.must(s.awaitRevision(1, lab.StopLimit))
			s.must(s.awaitAlone(lab.StopLimit))
			in, out := s.hold(), s.holdAt(outbound)
			s.awaitInFlight(2)
			stop(s)
			s.must(lab.Eventually(lab.StopLimit, func() error {
				if _, err := lab.Get("http://" + s.status + "/healthz/ready"); err == nil {
					return fmt.Errorf("it is said to be ready")
				}
				return nil
			}))
			if _, err := lab.Get("http://" + s.address); err != nil {
				t.Errorf("a new request while the work in flight is done: %v", err)
			}
			close(s.program.held)
			for direction, ended := range map[string]<-chan error{"inbound": in, "outbound": out} {
				if err := <-ended; err != nil {
					t.Errorf("%s request in flight: %v", direction, err)
				}
			}
			answered := lab.StartStopwatch()
			code, err := s.Wait(lab.StopLimit)
			s.must(err)
			t.Logf("gone %s after the last answer", answered.Took())
			answered.Within(t, time.Second, "to be gone after the last answer")
			if code != 0 {
				t.Errorf("exit status %d, want 0", code)
			}
		})
	}
}

// The other ends: each is bounded, and with status 0.
func TestStop(t *testing.T) {
	t.Parallel()
	var answered <-chan error
	for _, test := range []struct {
		name  string
		setup func(s *standalone)
		stop  func(s *standalone)
		limit time.Duration
	}{
		{"idle", nil, func(s *standalone) { s.Signal(syscall.SIGTERM) }, time.Second},
		{
			"frozen", func(s *standalone) { s.must(syscall.Kill(s.pid("serving"), syscall.SIGSTOP)) },
			func(s *standalone) { s.Signal(syscall.SIGTERM) }, 5 * time.Second,
		},
		{"twice at once: the work is finished", func(s *standalone) { answered = s.slow(s.address); s.awaitInFlight(1) }, func(s *standalone) {
			s.Signal(syscall.SIGTERM)
			s.must(s.AwaitLog(`msg=stopping`))
			s.Signal(syscall.SIGTERM)
			s.must(<-answered)
		}, 2 * time.Second},
		{"twice: it hurries", func(s *standalone) {
			s.slow(s.address)
			s.awaitInFlight(1)
			go fresh.Get("http://" + s.address + "/slow?20s")
			s.awaitInFlight(2)
		}, func(s *standalone) {
			s.Signal(syscall.SIGTERM)
			s.must(s.AwaitLog(`msg=stopping`))
			<-time.After(2100 * time.Millisecond)
			s.Signal(syscall.SIGTERM)
		}, 2 * time.Second},
		{"three times: it kills", func(s *standalone) {
			s.slow(s.address)
			s.awaitInFlight(1)
			s.must(syscall.Kill(s.pid("serving"), syscall.SIGSTOP)) // TERM will not end it
		}, func(s *standalone) {
			s.Signal(syscall.SIGTERM)
			s.must(s.AwaitLog(`msg=stopping`))
			<-time.After(2100 * time.Millisecond)
			s.Signal(syscall.SIGTERM)
			s.Signal(syscall.SIGTERM)
		}, 2 * time.Second},
		{"SIGQUIT: without a drain", func(s *standalone) {
			go fresh.Get("http://" + s.address + "/slow?20s")
			s.awaitInFlight(1)
		}, func(s *standalone) {
			s.Signal(syscall.SIGQUIT)
			s.must(s.AwaitLog(`msg="SIGQUIT received" goroutines="goroutine `)) // at level debug
		}, 2 * time.Second},
		{"in a handover", func(s *standalone) {
			s.configure(2)
			s.must(s.awaitStatus(handoverLimit, "two epochs", func(a agentStatus) bool { return len(a.Epochs) == 2 }))
		}, func(s *standalone) { s.Signal(syscall.SIGTERM) }, 8 * time.Second},
		{ // nobody can ask the parent, whose admin is closed: its sockets tell that it has nothing to do
			"after a hot handover", func(s *standalone) {
				s.configure(2)
				s.must(s.awaitRevision(2, handoverLimit))
			}, func(s *standalone) { s.Signal(syscall.SIGTERM) }, 2 * time.Second,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startStandalone(t)
			if test.setup != nil {
				test.setup(s)
			}
			envoys := lab.Children(s.Pid)
			test.stop(s)
			watch := lab.StartStopwatch()
			code, err := s.Wait(lab.StopLimit)
			s.must(err)
			watch.Within(t, test.limit, "the stop")
			t.Logf("gone after %s", watch.Took())
			if code != 0 {
				t.Errorf("exit status %d, want 0", code)
			}
			for _, pid := range envoys {
				if lab.Alive(pid) {
					t.Errorf("Envoy %d lives", pid)
				}
			}
		})
	}
}

// Before Envoy is live there is nothing to wait for.
func TestStopBeforeLive(t *testing.T) {
	t.Parallel()
	for range 10 {
		s := newStandalone(t)
		s.launch()
		s.must(s.AwaitLog(`msg="Envoy started"`))
		s.Signal(syscall.SIGTERM)
		watch := lab.StartStopwatch()
		code, err := s.Wait(lab.StopLimit)
		s.must(err)
		watch.Within(t, 2*time.Second, "the stop")
		if code != 0 {
			t.Errorf("exit status %d, want 0:\n%s", code, s.Log())
		}
	}
}

func (s *standalone) awaitInFlight(n int64) {
	s.t.Helper()
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if got := s.program.inFlight.Load(); got != n {
			return fmt.Errorf("%d requests in flight, want %d", got, n)
		}
		return nil
	}))
}

// A client that goes on asking while the agent stops: what was begun is answered, and each answer says to go away.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	startStandalone(t).stopsUnderLoad()
}

func (s *standalone) stopsUnderLoad() {
	s.t.Helper()
	load := s.load()
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if n := load.Requests(); n < 200 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	}))
	// As behind a balancer that has heard: no new connections, kept ones go on.
	load.Leave()
	var left sync.WaitGroup
	left.Go(func() { lab.Unharmed(s.t, load) })
	s.Signal(syscall.SIGTERM)
	left.Wait()
	code, err := s.Wait(lab.StopLimit)
	s.must(err)
	if code != 0 {
		s.t.Errorf("exit status %d, want 0", code)
	}
}

// A gateway has no inbound listeners: all of its listeners close kept connections with their next answer.
func TestGatewayStopsUnderLoad(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"router", "ingress"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			s := newStandalone(t)
			s.role = role
			s.mutate = func(text string) string { return strings.ReplaceAll(text, `"INBOUND"`, `"OUTBOUND"`) }
			s.configure(1)
			s.launch("--terminationDrainDuration", "20s")
			s.must(s.awaitRevision(1, startLimit))
			s.stopsUnderLoad()
		})
	}
}

// Clients that have not learnt of the stop yet are served for minimumDrainDuration, although nothing is in flight between
// their requests.
func TestStopServesLateClients(t *testing.T) {
	t.Parallel()
	const late = 4 * time.Second
	s := startStandalone(t, "--minimumDrainDuration", late.String(), "--terminationDrainDuration", "1s")
	began := time.Now() // before the agent hears of it: what is answered until this late is answered in time
	s.Signal(syscall.SIGTERM)
	s.must(s.AwaitLog(`msg=stopping`))
	for ticks := time.NewTicker(100 * time.Millisecond); ; <-ticks.C {
		response, err := fresh.Get("http://" + s.address)
		if err == nil {
			response.Body.Close()
		}
		if time.Since(began) > late*3/4 {
			break
		}
		s.must(err)
		if response.StatusCode != http.StatusOK || !response.Close {
			t.Errorf("a late request is answered with %s, and the connection is closed: %t", response.Status, response.Close)
		}
	}
	code, err := s.Wait(lab.StopLimit)
	s.must(err)
	if code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}
