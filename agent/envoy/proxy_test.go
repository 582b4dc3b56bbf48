package envoy

import (
	"bytes"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newProxy returns a Proxy whose Envoy is a shell script.
func newProxy(t *testing.T, script string) *Proxy {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Proxy{
		Binary:    binary,
		Dir:       filepath.Join(t.TempDir(), "proxy"),
		Bootstrap: func(epoch int) ([]byte, error) { return []byte("{}"), nil },
		Output:    &bytes.Buffer{},
		Log:       slog.New(slog.DiscardHandler),
		Fork:      forker(t),
	}
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

func never() {}

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
			if got := p.Run(0, nil, never); got != test.want {
				t.Errorf("Run: got %+v, want %+v", got, test.want)
			}
			empty(t, p.Dir)
		})
	}
}

func TestRunSaysWhyItCouldNotStart(t *testing.T) {
	p := newProxy(t, "")
	p.Binary = "/nowhere/envoy"
	if got := p.Run(0, nil, never); got.Code != -1 || !strings.Contains(got.Reason, "/nowhere/envoy: no such file") {
		t.Errorf("Run: got %+v, want code -1 and a reason that names the file", got)
	}
	empty(t, p.Dir)
}

func TestRunWritesABootstrapThatOnlyTheOwnerReads(t *testing.T) {
	p := newProxy(t, `stat -c %a "$2"; cat "$2"`)
	p.Run(3, nil, never)
	if got := p.Output.(*bytes.Buffer).String(); got != "600\n{}" {
		t.Errorf("Envoy sees mode and content %q, want 600 and {}", got)
	}
}

func TestRunPassesSignalsOnAndLeavesNoDescendant(t *testing.T) {
	p := newProxy(t, "trap 'exit 7' TERM; echo $$ $(cut -d' ' -f5 /proc/$$/stat); while :; do sleep 0.01; done")
	started := make(chan string, 1)
	p.Output = writer(func(line string) { started <- line })
	abortCh := make(chan syscall.Signal, 1)
	ended := make(chan agent.Exit)
	go func() { ended <- p.Run(0, abortCh, never) }()
	pid, group, _ := strings.Cut(strings.TrimSpace(<-started), " ")
	if group != pid {
		t.Errorf("process %s is in group %s, want one of its own", pid, group)
	}
	abortCh <- syscall.SIGTERM
	if got := <-ended; got.Code != 7 {
		t.Errorf("Run: got %+v, want code 7, the answer to TERM", got)
	}
	number, _ := strconv.Atoi(pid)
	if err := syscall.Kill(number, 0); err != syscall.ESRCH {
		t.Errorf("process %s: %v, want it reaped", pid, err)
	}
}

func TestRunCallsLiveOnceAdminIsReady(t *testing.T) {
	p := newProxy(t, "sleep 60 & trap 'kill $!; exit 0' TERM; wait")
	states := make(chan int, 3)
	states <- http.StatusServiceUnavailable
	states <- http.StatusServiceUnavailable
	states <- http.StatusOK
	serveAdmin(t, p, states)
	abortCh := make(chan syscall.Signal, 1)
	lives := 0
	p.Run(0, abortCh, func() { lives++; abortCh <- syscall.SIGTERM })
	if lives != 1 || len(states) != 0 {
		t.Errorf("live called %d times with %d answers left, want once after the 200", lives, len(states))
	}
}

// serveAdmin answers /ready in the place of Envoy, with one status of states for each request.
func serveAdmin(t *testing.T, p *Proxy, states <-chan int) {
	t.Helper()
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", AdminSocket(p.Dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(<-states) })}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-done })
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

type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, _ := e.Info()
		t.Errorf("left behind: %s (%s)", e.Name(), fs.FormatFileInfo(info))
	}
}
