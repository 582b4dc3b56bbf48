package envoy

import (
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// newProxy returns a Proxy whose Envoy is a shell script.
func newProxy(t *testing.T, script string) *Proxy {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	dir, err := os.MkdirTemp("", "pilotlight-") // t.TempDir has the test's name in it, and a socket's path must be short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	slot, err := Claim(filepath.Join(dir, "proxy"), log)
	must(t, err)
	t.Cleanup(func() { must(t, slot.Release()) })
	return &Proxy{Binary: binary, Slot: slot, Log: log, Output: log, Fork: forker(t)}
}

// forker returns a Fork that runs on one locked thread until the test ends.
func forker(t *testing.T) func(func()) {
	work, done := make(chan func()), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(done)
		for f := range work {
			f()
		}
	}()
	t.Cleanup(func() { close(work); <-done })
	return func(f func()) {
		ended := make(chan struct{})
		work <- func() { f(); close(ended) }
		<-ended
	}
}

var someConfig = agent.Config{Bootstrap: "{}", Format: "json"}

func ignore(agent.Report) {}

func TestRunTellsHowTheEpochEnded(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         agent.Exit
	}{
		{"by itself", "exit 0", agent.Exit{}},
		{"refusing", "echo 'no such field' >&2; exit 1", agent.Exit{Code: 1, Reason: "no such field"}},
		{"killed", "kill -KILL $$", agent.Exit{Code: -1, Signal: syscall.SIGKILL}},
		{"aborted", "echo 'assert failure' >&2; kill -ABRT $$", agent.Exit{Code: -1, Signal: syscall.SIGABRT, Reason: "assert failure"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProxy(t, test.script)
			if got := p.Run(agent.Launch{Config: someConfig}, nil, ignore); got != test.want {
				t.Errorf("Run: got %+v, want %+v", got, test.want)
			}
			leavesNothing(t, p)
		})
	}
}

func TestRunSaysWhyItCouldNotStart(t *testing.T) {
	p := newProxy(t, "")
	p.Binary = "/nowhere/envoy"
	if got := p.Run(agent.Launch{Config: someConfig}, nil, ignore); got.Code != -1 || !strings.Contains(got.Reason, "/nowhere/envoy: no such file") {
		t.Errorf("Run: got %+v, want code -1 and a reason that names the file", got)
	}
	leavesNothing(t, p)
}

// In a directory whose path is too long for sockets, the agent and Envoy reach them by the directory's descriptor.
func TestClaimOfALongPath(t *testing.T) {
	configPath := filepath.Join(t.TempDir(), strings.Repeat("x", 108))
	s := claim(t, configPath)
	if s.Name() != configPath || !strings.HasPrefix(s.Dir(), "/dev/fd/") {
		t.Fatalf("Claim: %s as %s", s.Name(), s.Dir())
	}
	in, err := s.Room()
	must(t, err)
	if in.dir != s.Dir() {
		t.Errorf("Room: %s, want %s", in.dir, s.Dir())
	}
	must(t, hotrestart.Sockets{Dir: in.dir, Token: in.token}.Check())
	listener, err := net.Listen("unix", s.Socket("agent"))
	must(t, err)
	defer listener.Close()
	conn, err := net.Dial("unix", FindSocket(configPath, "agent"))
	must(t, err)
	must(t, conn.Close())
	must(t, listener.Close())
	must(t, s.Release())
	if _, err := os.Stat(configPath); err == nil {
		t.Errorf("%s is left", configPath)
	}
}

func TestRunWritesABootstrapThatOnlyTheOwnerReads(t *testing.T) {
	p := newProxy(t, `stat -c %a:%n "$2" >"$0.seen"; cat "$2" >>"$0.seen"`)
	p.Run(agent.Launch{Epoch: 3, Config: agent.Config{Bootstrap: "a: b", Format: "yaml"}}, nil, ignore)
	seen, err := os.ReadFile(p.Binary + ".seen")
	must(t, err)
	if got, want := string(seen), "600:"+p.Slot.Dir()+"/envoy-rev3.yaml\na: b"; got != want {
		t.Errorf("Envoy sees mode, name and content %q, want %q", got, want)
	}
}

func TestRunPassesSignalsOnAndReaps(t *testing.T) {
	p := newProxy(t, "trap 'exit 7' TERM; while :; do sleep 0.01; done")
	abortCh := make(chan agent.Order, 1)
	ended := make(chan agent.Exit)
	go func() { ended <- p.Run(agent.Launch{Config: someConfig}, abortCh, ignore) }()
	pid := 0
	for deadline := time.Now().Add(30 * time.Second); pid == 0 && time.Now().Before(deadline); runtime.Gosched() {
		pid = p.Pids()[0]
	}
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("process %d is in group %d (%v), want one of its own", pid, group, err)
	}
	var got agent.Exit
	for running := true; running; { // until the script has set its trap, TERM ends it
		select {
		case abortCh <- agent.Order{Signal: syscall.SIGTERM}:
		case got = <-ended:
			running = false
		}
	}
	if got.Code != 7 && got.Signal != syscall.SIGTERM {
		t.Errorf("Run: got %+v, want the answer to TERM", got)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d: %v, want it reaped", pid, err)
	}
}

func TestRunReportsLiveOnceAdminIsReadyAndWorkersRun(t *testing.T) {
	p := newProxy(t, "sleep 60 & trap 'kill $!; exit 0' TERM; wait")
	questions := serveAdmin(t, filesOf(room{p.Slot.Dir(), p.Slot.token}, "rev0", "json").admin)
	abortCh := make(chan agent.Order, 1)
	var reports []agent.Report
	p.Run(agent.Launch{Config: someConfig}, abortCh, func(r agent.Report) {
		reports = append(reports, r)
		abortCh <- agent.Order{Signal: syscall.SIGTERM}
	})
	if len(reports) != 1 || reports[0] != agent.Live {
		t.Errorf("reports %v, want live once", reports)
	}
	if n := questions.Load(); n < 4 {
		t.Errorf("live after %d questions, want not before the workers run", n)
	}
}

// serveAdmin answers instead of Envoy: ready at the second request, workers started at the fourth.
func serveAdmin(t *testing.T, socket string) *atomic.Int64 {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	must(t, err)
	questions := new(atomic.Int64)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := questions.Add(1); {
		case r.URL.Path == "/ready" && n < 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/stats" && n >= 4:
			w.Write([]byte("listener_manager.workers_started: 1\n"))
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-done })
	return questions
}

func TestPollIntervalIsShortThenRelaxes(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		0:           5 * time.Millisecond,
		time.Second: 20 * time.Millisecond,
		time.Minute: 100 * time.Millisecond,
	} {
		if got := pollInterval(waited); got != want {
			t.Errorf("pollInterval(%s) = %s, want %s", waited, got, want)
		}
	}
}

// leavesNothing fails the test if an epoch has left files beside the slot's lock.
func leavesNothing(t *testing.T, p *Proxy) {
	t.Helper()
	must(t, os.Rename(filepath.Join(p.Slot.Dir(), lockName), p.Slot.Dir()+".lock"))
	defer func() { must(t, os.Rename(p.Slot.Dir()+".lock", filepath.Join(p.Slot.Dir(), lockName))) }()
	empty(t, p.Slot.Dir())
}

// empty fails the test for each entry of a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, _ := e.Info()
		t.Errorf("left behind: %s", fs.FormatFileInfo(info))
	}
}
