package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// standalone is an agent over a custom bootstrap without discovery: one listener in front of a program of the test.
// The header x-rev of every answer names the revision of the bootstrap.
type standalone struct {
	*lab.Sidecar
	t       *testing.T
	config  string // file
	address string // host:port of the listener
	status  string // host:port of the agent's own status
	role    string // "sidecar" if empty
	program *program
	env     []string
	stdout  *os.File // of the agent; nil for its log
	stderr  *os.File
	bin     string                        // the agent's directory; empty for the common one
	call    []string                      // the words that start the agent; empty for its path in bin
	mutate  func(bootstrap string) string // what to do to every revision; nil for nothing
}

// program stands behind Envoy: it answers "/" at once, "/slow?3s" after that time, and "/held" when held is closed.
type program struct {
	*httptest.Server
	inFlight atomic.Int64
	held     chan struct{}
}

func startProgram(t *testing.T) *program {
	p := &program{held: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.inFlight.Add(1)
		defer p.inFlight.Add(-1)
		var until <-chan struct{}
		if d, err := time.ParseDuration(r.URL.RawQuery); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			until = ctx.Done()
		}
		if r.URL.Path == "/held" {
			until = p.held
		}
		if until != nil {
			select {
			case <-until:
			case <-r.Context().Done():
				return
			}
		}
		io.WriteString(w, "ok")
	}))
	t.Cleanup(p.Close)
	return p
}

// startStandalone starts an agent and waits until its Envoy serves revision 1. When the test ends the agent is
// stopped, and it is an error if anything of it is left.
func startStandalone(t *testing.T, flags ...string) *standalone {
	t.Helper()
	s := newStandalone(t)
	s.launch(flags...)
	s.must(s.awaitRevision(1, startLimit))
	s.must(s.awaitAlone(lab.StopLimit))
	return s
}

func newStandalone(t *testing.T) *standalone {
	t.Helper()
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &standalone{t: t, config: filepath.Join(t.TempDir(), "bootstrap.json"), address: fmt.Sprintf("%s1:%d", lab.Addresses(), port), program: startProgram(t)}
	s.configure(1)
	return s
}

// launch starts the agent with short times; flags may override them.
func (s *standalone) launch(flags ...string) {
	s.launchAt(lab.ShortDir(s.t), flags...)
}

// launchIn starts another agent in the place of one that is gone.
func (s *standalone) launchIn(former *lab.Sidecar, flags ...string) {
	s.launchAt(filepath.Dir(former.ConfigPath), flags...)
}

func (s *standalone) launchAt(dir string, flags ...string) {
	s.t.Helper()
	s.start(dir, flags...)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the agent's log:\n%s", tail(s.Log(), 60))
		}
		select {
		case <-s.Done(): // the test has stopped it, and judged that itself; a killed one leaves its shared memory
			removeSegments(s.Log())
			return
		default:
		}
		if code := s.Stop(lab.StopLimit); code != 0 {
			s.t.Errorf("the agent's exit status is %d, want 0:\n%s", code, tail(s.Log(), 20))
		}
		if left := leftovers(s.t, s.ConfigPath); len(left) > 0 {
			s.t.Errorf("left in configPath: %v", left)
		}
		for _, path := range segmentsIn(s.Log()) {
			if _, err := os.Lstat(path); err == nil {
				s.t.Errorf("%s is left; the agent's log:\n%s", path, tail(s.Log(), 60))
				_ = os.Remove(path)
			}
		}
	})
}

// start starts an agent that the caller ends.
func (s *standalone) start(dir string, flags ...string) {
	s.t.Helper()
	port, err := lab.FreePort()
	s.must(err)
	s.status = fmt.Sprintf("127.0.0.1:%d", port)
	place := lab.New(dir)
	place.Bin = cmp.Or(s.bin, place.Bin)
	s.Sidecar, err = place.Sidecar(lab.Workload{
		Role: s.role, Name: "standalone", App: "standalone", IP: "127.0.0.1", Discovery: "127.0.0.1:1", Env: s.env, Stdout: s.stdout, Stderr: s.stderr,
		Call: s.call,
		Flags: append([]string{
			"--customConfigFile", s.config, "--statusPort", fmt.Sprint(port),
			"--drainDuration", "1s", "--parentShutdownDuration", "2s", "--handoverTimeout", "10s", "--logLevel", "debug",
		}, flags...),
	})
	s.must(err)
}

func (s *standalone) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// configure writes a revision of the bootstrap, as an editor does.
func (s *standalone) configure(revision int) {
	s.t.Helper()
	text := lab.StaticBootstrap(s.address, s.program.Listener.Addr().String(), revision)
	if s.mutate != nil {
		text = s.mutate(text)
	}
	s.must(os.WriteFile(s.config+"~", []byte(text), 0o600))
	s.must(os.Rename(s.config+"~", s.config))
}

// awaitRevision waits until a new connection is answered by a revision, and the handover is over: nobody else lives.
func (s *standalone) awaitRevision(revision int, limit time.Duration) error {
	s.t.Helper()
	return lab.Eventually(limit, func() error {
		select {
		case <-s.Done():
			return nil
		default:
		}
		response, err := fresh.Get("http://" + s.address + "/")
		if err != nil {
			return err
		}
		response.Body.Close()
		if got := response.Header.Get("x-rev"); got != fmt.Sprint(revision) {
			return fmt.Errorf("revision %q answers, want %d", got, revision)
		}
		return nil
	})
}

// awaitAlone waits until one epoch lives, and serves.
func (s *standalone) awaitAlone(limit time.Duration) error {
	return s.awaitStatus(limit, "one epoch that serves", func(a agentStatus) bool {
		return len(a.Epochs) == 1 && a.Epochs[0].State == "serving"
	})
}

func (s *standalone) awaitStatus(limit time.Duration, what string, is func(agentStatus) bool) error {
	return lab.Eventually(limit, func() error {
		a, err := s.ask()
		if err == nil && !is(a) {
			err = fmt.Errorf("status is %+v, want %s", a, what)
		}
		return err
	})
}

// agentStatus is what /status tells, as far as the tests ask.
type agentStatus struct {
	Ready     bool
	Drained   bool
	Epochs    []epochStatus
	Handover  string
	Refusal   *struct{ Reason string }
	Counts    map[string]int
	Readiness struct{ Changes int }
	Upgrades  struct {
		Count            int
		Pending, Failure string
		NotInForce       []string `json:"not_in_force"`
	}
}

// servedByAnother reports whether one epoch lives and serves, in another process than this one. An epoch whose exit the agent has
// not judged yet has no process.
func (a agentStatus) servedByAnother(pid int) bool {
	return len(a.Epochs) == 1 && a.Epochs[0].State == "serving" && a.Epochs[0].Pid != 0 && a.Epochs[0].Pid != pid
}

type epochStatus struct {
	Epoch, Pid int
	State      string
}

func (s *standalone) ask() (a agentStatus, err error) {
	body, err := lab.Get("http://" + s.status + "/status")
	if err == nil {
		err = json.Unmarshal([]byte(body), &a)
	}
	return a, err
}

// pid returns the process of the epoch in a state.
func (s *standalone) pid(state string) int {
	s.t.Helper()
	a, err := s.ask()
	s.must(err)
	for _, e := range a.Epochs {
		if e.State == state {
			return e.Pid
		}
	}
	s.t.Fatalf("no epoch is %s: %+v", state, a)
	return 0
}

// fresh is a client whose every request has a connection of its own.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
