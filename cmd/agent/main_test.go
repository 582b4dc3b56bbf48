package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"agent": main}) }

// TestScripts runs each testdata/*.txt: one behaviour of the command, as a person at a shell would see it.
func TestScripts(t *testing.T) {
	commands := fakeCommands()
	commands["exits"] = exits
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: commands})
}

// exits runs a command that must end with the status given first: "exits 2 agent nope".
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	status := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if status != want {
		ts.Fatalf("%v: exit status %d, want %d", args[1:], status, want)
	}
}

// fake stands for an agent's ports in a script. Its file has a line for each answer: method, URI, status and, where
// the body is not empty, the file of the body. A request gets the answers of its line in turn, the last one again and
// again. Every request is a line of $WORK/requests: method, URI and body.
//
//	fake answers      starts one; $PILOTLIGHT_STATUS_PORT and $PILOTLIGHT_PROXY_ADMIN_PORT are its port
//	asked 2 'GET /x'  waits until it has received that request twice, so that it has answered once
func fakeCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){"fake": startFake, "asked": awaitAsked}
}

type fake struct {
	mu      sync.Mutex
	answers map[string][]fakeAnswer // by method and URI
	log     string                  // file
	fault   error
}

type fakeAnswer struct {
	status int
	body   string
}

func startFake(ts *testscript.TestScript, _ bool, args []string) {
	f := &fake{answers: map[string][]fakeAnswer{}, log: ts.MkAbs("requests")}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var method, uri, file string
		var a fakeAnswer
		if n, err := fmt.Sscan(line, &method, &uri, &a.status, &file); n < 3 {
			ts.Fatalf("%s: %q: %v", args[0], line, err)
		}
		if file != "" {
			a.body = ts.ReadFile(file)
		}
		f.answers[method+" "+uri] = append(f.answers[method+" "+uri], a)
	}
	server := httptest.NewServer(f)
	ts.Defer(func() {
		server.Close()
		ts.Check(f.fault)
	})
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	ts.Setenv("PILOTLIGHT_STATUS_PORT", port)
	ts.Setenv("PILOTLIGHT_PROXY_ADMIN_PORT", port)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	what := r.Method + " " + r.URL.RequestURI()
	log, err := os.OpenFile(f.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(log, strings.TrimSpace(what+" "+string(body)))
		log.Close()
	}
	f.fault = err
	answers := f.answers[what]
	if len(answers) == 0 {
		http.NotFound(w, r)
		return
	}
	if len(answers) > 1 {
		f.answers[what] = answers[1:]
	}
	w.WriteHeader(answers[0].status)
	io.WriteString(w, answers[0].body)
}

func awaitAsked(ts *testscript.TestScript, _ bool, args []string) {
	times, err := strconv.Atoi(args[0])
	ts.Check(err)
	deadline := time.Now().Add(time.Minute)
	for {
		text, _ := os.ReadFile(ts.MkAbs("requests"))
		if strings.Count(string(text), args[1]) >= times {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not asked %q %d times within a minute, but:\n%s", args[1], times, text)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// kubectl describe shows why a container of the agent ended, or for what it waited in vain.
func TestLeave(t *testing.T) {
	long := errors.New(strings.Repeat("é", longestMessage))
	for _, test := range []struct {
		err     error
		unready string
		want    string
	}{
		{nil, "", "before"},
		{errors.New("envoy: no such file"), "CDSReceived: not yet", "envoy: no such file"},
		{nil, "CDSReceived: not yet", "stopped before it was ready: CDSReceived: not yet"},
		{long, "", strings.Repeat("é", longestMessage/2)},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
			t.Fatal(err)
		}
		leave(path, test.err, test.unready)
		if got, err := os.ReadFile(path); string(got) != test.want || err != nil {
			t.Errorf("%v, %q: got %q, %v, want %q", test.err, test.unready, got, err, test.want)
		}
	}
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o666), os.Symlink(victim, link)); err != nil {
		t.Fatal(err)
	}
	leave(link, errors.New("x"), "")
	leave(filepath.Join(dir, "missing"), errors.New("x"), "")
	if text, err := os.ReadFile(victim); string(text) != "precious" || err != nil {
		t.Errorf("a link was followed: %q, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 2 || err != nil {
		t.Errorf("%v, %v: a file was made", entries, err)
	}
}
