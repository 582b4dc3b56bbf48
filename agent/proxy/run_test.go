package proxy

import (
	"testing"

	"github.com/pilotlight/pilotlight/agent"
)

// The actions for the first time that Envoy serves run once, also if the supervisor reports more while it serves.
func TestOnceServing(t *testing.T) {
	done := 0
	observe := onceServing(func() { done++ })
	for _, step := range []struct{ serving, want int }{{0, 0}, {1, 1}, {1, 1}, {2, 1}, {0, 1}, {1, 1}} {
		observe(agent.Status{Counts: map[agent.Note]int{agent.Serving: step.serving}})
		if done != step.want {
			t.Errorf("%d epochs have come to serve: done %d times, want %d", step.serving, done, step.want)
		}
	}
}
