package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

func TestJournalKeepsTheLastTransitions(t *testing.T) {
	var j Journal
	for i := range 100 {
		at := began.Add(time.Duration(i) * time.Second)
		for range 3 { // asked more often than it changes
			j.Ready(at, func() (bool, string) { return i%2 == 1, fmt.Sprint(i) })
		}
	}
	past := j.Past()
	if past.Changes != 99 || len(past.Readiness) != keptTransitions {
		t.Fatalf("%d changes, %d kept; want 99, %d", past.Changes, len(past.Readiness), keptTransitions)
	}
	for i, got := range past.Readiness {
		n := 100 - keptTransitions + i
		if want := (Transition{began.Add(time.Duration(n) * time.Second), n%2 == 1, fmt.Sprint(n)}); got != want {
			t.Errorf("transition %d: got %+v, want %+v", i, got, want)
		}
	}
}

func TestJournalTellsExits(t *testing.T) {
	var j Journal
	asked := 0
	lines := func(epoch int) (out []string) {
		asked++
		for i := range 2 * keptLines {
			out = append(out, fmt.Sprintf("epoch %d line %d", epoch, i))
		}
		return out
	}
	events := []agent.Event{
		{At: began, Note: agent.Starting, Epoch: 0},
		{At: began.Add(1), Note: agent.Failed, Epoch: 0, Why: "exit status 1: cannot bind"},
		{At: began.Add(2), Note: agent.Serving, Epoch: 1},
		{At: began.Add(3), Note: agent.Replaced, Epoch: 1, Why: "exit status 0"},
	}
	for n := range events {
		j.Observe(events[n:n+1], lines)
		j.Observe(nil, lines) // a change without an event
	}
	past := j.Past()
	if asked != 2 {
		t.Errorf("asked for lines %d times, want once for each exit", asked)
	}
	if e := past.LastFailure; e == nil || e.Epoch != 0 || e.What != "Envoy ended unasked" || e.Exit != "exit status 1: cannot bind" ||
		len(e.Lines) != keptLines || e.Lines[keptLines-1] != "epoch 0 line 39" {
		t.Errorf("last failure: %+v", e)
	}
	if e := past.LastExit; e == nil || e.Epoch != 1 || e.What != string(agent.Replaced) {
		t.Errorf("last exit: %+v", e)
	}
	secret := func(int) []string { return []string{"authorization: Bearer hidden-token"} }
	j.Observe([]agent.Event{{At: began.Add(4), Note: agent.Stopped, Epoch: 2}}, secret)
	if e := j.Past().LastExit; e.Epoch != 2 || strings.Contains(e.Lines[0], "hidden") {
		t.Errorf("last exit: %+v, want that of epoch 2, its secret masked", e)
	}
}
