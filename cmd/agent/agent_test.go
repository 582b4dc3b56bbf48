package main

import (
	"errors"
	"os/exec"
	"strconv"
	"testing"

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
