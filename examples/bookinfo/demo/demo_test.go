package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test binary stand for the demo's children: $FAKE says how it behaves.
func TestMain(m *testing.M) {
	switch os.Getenv("FAKE") {
	case "":
		os.Exit(m.Run())
	case "obedient":
		fake(syscall.SIGTERM)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
		fake(syscall.SIGUSR1)
	}
}

// fake answers 200 wherever its flags say that it, or its Envoy, would; until a signal, which it notes in $LEFT.
func fake(until os.Signal) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, until)
	flags := map[string]string{}
	for i, arg := range os.Args[1:] {
		if name := strings.TrimLeft(arg, "-"); name != arg && i+2 < len(os.Args) {
			flags[name] = os.Args[i+2]
		}
	}
	for flag, address := range map[string]string{
		"httpAddr":       flags["httpAddr"],
		"listen":         flags["listen"],
		"proxyAdminPort": "127.0.0.1:" + flags["proxyAdminPort"],
		"ip":             fmt.Sprintf("%s:%d", flags["ip"], servicePort),
	} {
		if flags[flag] == "" {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go func() { _ = http.Serve(listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) }()
	}
	fmt.Println("serving")
	<-asked
	left, err := os.OpenFile(os.Getenv("LEFT"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(left, os.Getenv("NAME"))
	os.Exit(0)
}

// scene makes a folder of fake binaries and returns flags for a demo of its own.
func scene(t *testing.T, scripts map[string]string) (args []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"discovery", "bookinfo", "agent"} {
		script, ok := scripts[name]
		if !ok {
			script = fmt.Sprintf("GORACE=atexit_sleep_ms=0 FAKE=obedient NAME=%s LEFT=%s/left exec %s \"$@\"", name, dir, self)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"-bin", dir, "-run", filepath.Join(dir, "run"), "-config", "../config", "-addresses", "127.9.0.", "-port-offset", "9000",
	}, dir
}

// output is a buffer that a test can wait on.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	seen chan struct{} // closed once want was written
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := strings.Contains(o.text.String(), o.want)
	o.text.Write(p)
	if !before && strings.Contains(o.text.String(), o.want) {
		close(o.seen)
	}
	return len(p), nil
}

func TestDemo(t *testing.T) {
	defer goleak.VerifyNone(t)
	args, dir := scene(t, nil)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	stdout := &output{want: "Ctrl-C stops everything", seen: make(chan struct{})}
	var stderr bytes.Buffer
	code := make(chan int)
	go func() { code <- command(ctx, args, stdout, &stderr) }()

	select {
	case <-stdout.seen:
	case <-ctx.Done():
	}
	config, err := os.ReadFile(filepath.Join(dir, "run", "config", "services.yaml"))
	if err != nil || !bytes.Contains(config, []byte("127.9.0.14")) || bytes.Contains(config, []byte("127.0.0.")) {
		t.Errorf("the copied configuration still has the old addresses (error %v):\n%s", err, config)
	}
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d, want 0; stderr:\n%s", got, &stderr)
	}

	for _, want := range []string{
		"http://127.9.0.11:9080/productpage", "run/config/reviews.yaml:38", "http://127.0.0.1:24202/clusters", "http://127.0.0.1:17080/ for a browser",
	} {
		if !strings.Contains(stdout.text.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, &stdout.text)
		}
	}
	left, err := os.ReadFile(filepath.Join(dir, "left"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("agent\n", 5) + strings.Repeat("bookinfo\n", 5) + "discovery\n"
	if got := string(left); got != want {
		t.Errorf("left in the order %q, want %q", got, want)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "run", "*"))
	if i := slices.IndexFunc(files, func(f string) bool { return filepath.Ext(f) != ".log" }); i >= 0 || len(files) != 11 {
		t.Errorf("the run folder holds %v, want eleven logs and nothing else", files)
	}
}

func TestDemoFails(t *testing.T) {
	defer goleak.VerifyNone(t)
	tests := []struct {
		name    string
		scripts map[string]string
		args    []string
		code    int
		stderr  []string
	}{
		{
			"a child dies at start",
			map[string]string{"agent": "echo reading the bootstrap; echo no such Envoy >&2; exit 3"},
			nil, 1,
			[]string{"-agent ended by itself: exit status 3", "-agent.log", "reading the bootstrap\nno such Envoy"},
		},
		{
			"no binary", nil,
			[]string{"-bin", "/nowhere"},
			1,
			[]string{"start discovery", "/nowhere/discovery", "no such file"},
		},
		{
			"no configuration", nil,
			[]string{"-addresses", "127.9.0.", "-config", "/nowhere"},
			1,
			[]string{"/nowhere: holds no *.yaml file"},
		},
		{"not loopback", nil, []string{"-addresses", "10.0.0."}, 2, []string{`-addresses "10.0.0."`, "127.7.0."}},
		{"no dot", nil, []string{"-addresses", "127.0.0"}, 2, []string{`-addresses "127.0.0"`, "127.7.0."}},
		{
			"no Consul", nil,
			[]string{"-registry", "consul"},
			1,
			[]string{"registries/consul: no such file", "envoy-tools/fetch-registries consul builds it"},
		},
		{"no such registry", nil, []string{"-registry", "consol"}, 2, []string{`-registry "consol": want consul, or nothing`}},
		{"no such flag", nil, []string{"-ports"}, 2, []string{"-ports"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args, dir := scene(t, tt.scripts)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			var stdout, stderr bytes.Buffer
			if code := command(ctx, append(args, tt.args...), &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.stderr {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("stderr lacks %q:\n%s", want, &stderr)
				}
			}
			left, _ := os.ReadFile(filepath.Join(dir, "left"))
			if tt.scripts != nil && !strings.HasSuffix(string(left), "discovery\n") {
				t.Errorf("discovery was not stopped last: %q", left)
			}
		})
	}
}

// A demo that is stopped before it is up has not failed.
func TestDemoStoppedEarly(t *testing.T) {
	defer goleak.VerifyNone(t)
	args, dir := scene(t, map[string]string{"agent": "exec sleep 60"})
	ctx, stop := context.WithCancel(t.Context())
	started := make(chan struct{})
	go func() {
		defer close(started)
		defer stop()
		await(t, "the last agent's start", func() bool {
			_, err := os.Stat(filepath.Join(dir, "run", "ratings-v1-agent.log"))
			return err == nil
		})
	}()
	var stdout, stderr bytes.Buffer
	if code := command(ctx, args, &stdout, &stderr); code != 0 {
		t.Errorf("exit code %d, want 0; stderr:\n%s", code, &stderr)
	}
	<-started
}

func TestStopKillsTheStubborn(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir, ended := t.TempDir(), make(chan *process, 2)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var processes []*process
	for _, kind := range []string{"stubborn", "obedient"} {
		env := []string{"GORACE=atexit_sleep_ms=0", "FAKE=" + kind, "LEFT=" + filepath.Join(dir, "left")}
		p, err := start(spec{name: kind, argv: []string{self}, env: env}, dir, ended)
		if err != nil {
			t.Fatal(err)
		}
		await(t, kind+"'s signal handling", func() bool {
			text, _ := os.ReadFile(p.log)
			return bytes.Contains(text, []byte("serving"))
		})
		processes = append(processes, p)
	}
	if killed := stop(processes, 5*time.Second); !slices.Equal(killed, []string{"stubborn"}) {
		t.Errorf("killed %v, want the stubborn one only", killed)
	}
	if state := processes[1].cmd.ProcessState; state.ExitCode() != 0 {
		t.Errorf("the obedient one left with %v, want exit status 0", state)
	}
}

// await waits until ok, at the most ten seconds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	t.Errorf("waited in vain for %s", what)
}
