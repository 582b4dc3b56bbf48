package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"discovery": main})
}

// tests run without the variables that discovery reads; a script sets its own.
type tests struct{ *testing.M }

func (t tests) Run() int {
	lab.ForgetVariables()
	return t.M.Run()
}

// TestScripts runs testdata/*.txt, a behaviour each.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true})
}
