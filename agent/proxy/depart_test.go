package proxy

import (
	"slices"
	"testing"
)

// The ports of the agent are served while anything takes time: they close last, and only the state is read after that.
func TestThePortsCloseLast(t *testing.T) {
	var did []string
	step := func(name string) func() { return func() { did = append(did, name) } }
	departure{ask: step("ask"), flush: step("flush"), shut: step("shut"), alone: step("alone"), pack: step("pack")}.run()
	if want := []string{"ask", "flush", "shut", "alone", "pack"}; !slices.Equal(did, want) {
		t.Errorf("did %v, want %v", did, want)
	}
}
