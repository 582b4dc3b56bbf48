package application

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// echoing makes this test binary an application that prints the number of each signal that it receives, until VTALRM.
const echoing = "PILOTLIGHT_ECHO_SIGNALS"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(running) != "":
		os.Exit(runArguments())
	case os.Getenv(reading) != "":
		os.Exit(readKeys())
	case os.Getenv(echoing) == "":
		os.Exit(m.Run())
	}
	signals := make(chan os.Signal, 100)
	signal.Notify(signals, append(Signals(), syscall.SIGVTALRM)...)
	fmt.Println("set")
	for s := range signals {
		if s == syscall.SIGVTALRM {
			os.Exit(9)
		}
		fmt.Println(int(s.(syscall.Signal)))
	}
}

func shell(script string) Application {
	return Application{Argv: []string{"sh", "-c", script}, Env: os.Environ()}
}

// run runs an application to its end.
func run(t *testing.T, a Application) (status int, output string) {
	t.Helper()
	var out bytes.Buffer
	a.Stdout, a.Stderr = &out, &out
	status, err := a.Run(nil)
	if err != nil {
		t.Fatal(err)
	}
	return status, out.String()
}

func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		script string
		want   int
	}{
		{"exit 0", 0},
		{"exit 3", 3},
		{"exit 255", 255},
		{"kill -KILL $$", 137},
		{"kill -TERM $$", 143},
	} {
		if got, _ := run(t, shell(test.script)); got != test.want {
			t.Errorf("%s: %d, want %d", test.script, got, test.want)
		}
	}
}

// Every signal that can be caught reaches the application, each once.
func TestSignalsArePassedOn(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal)
	lines := make(chan []string, 1)
	go func() {
		var got []string
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			if got = append(got, scanner.Text()); len(got) > len(Signals()) {
				signals <- syscall.SIGVTALRM
			} else {
				signals <- Signals()[len(got)-1]
			}
		}
		lines <- got
	}()
	status, err := Application{Argv: []string{"/proc/self/exe"}, Env: append(os.Environ(), echoing+"=1"), Stdout: in}.Run(signals)
	in.Close()
	if status != 9 || err != nil {
		t.Errorf("status %d, %v; want 9", status, err)
	}
	want := []string{"set"}
	for _, s := range Signals() {
		want = append(want, strconv.Itoa(int(s.(syscall.Signal))))
	}
	if got := <-lines; !slices.Equal(got, want) {
		t.Errorf("the application got\n%v, want\n%v", got, want)
	}
	for _, s := range []syscall.Signal{1, 2, 3, 10, 12, 15, 18, 20, 28, 35, 64} {
		if !slices.Contains(want, strconv.Itoa(int(s))) {
			t.Errorf("%v is not passed on", s)
		}
	}
}

// A signal to the caller's group does not reach the application by itself.
func TestAGroupOfItsOwn(t *testing.T) {
	_, output := run(t, shell("ps -o pgid= -p $$; echo $$"))
	fields := strings.Fields(output)
	if len(fields) != 2 || fields[0] != fields[1] || fields[0] == strconv.Itoa(syscall.Getpgrp()) {
		t.Errorf("group and pid are %v, want the same twice, and not %d", fields, syscall.Getpgrp())
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, program string
		want          int
	}{
		{"not in PATH", "no-such-program-anywhere", 127},
		{"no such file", filepath.Join(dir, "missing"), 127},
		{"not executable", plain, 126},
		{"a directory", dir, 126},
	} {
		status, err := Application{Argv: []string{test.program, "x"}}.Run(nil)
		if err == nil || status != test.want || !strings.Contains(err.Error(), "start "+test.program+" x: ") {
			t.Errorf("%s: %d, %v; want %d", test.name, status, err, test.want)
		}
	}
}

// Input, output, arguments and environment are the application's own.
func TestInputOutputEnvironment(t *testing.T) {
	input, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	var stdout, stderr bytes.Buffer
	status, err := Application{
		Argv:  []string{"sh", "-c", `head -c 5; echo " $1 $X"; echo oops >&2; readlink /proc/self/fd/0`, "sh", "a b"},
		Env:   []string{"X=y", "PATH=" + os.Getenv("PATH")},
		Stdin: input, Stdout: &stdout, Stderr: &stderr,
	}.Run(nil)
	want := fmt.Sprintf("Name: a b y\n/proc/%d/status\n", os.Getpid())
	if err != nil || status != 0 || stdout.String() != want || stderr.String() != "oops\n" {
		t.Errorf("%d, %v, stdout %q, stderr %q; want stdout %q", status, err, stdout.String(), stderr.String(), want)
	}
}
