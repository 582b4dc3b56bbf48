package proxy

import (
	"testing"

	"github.com/pilotlight/pilotlight/agent"
)

// What a proxy waited for in vain is kept until it is ready for the first time, and is not replaced by its stop.
func TestReportNotesWhyItWasNeverReady(t *testing.T) {
	r := &report{}
	says := func(want string) {
		t.Helper()
		got := ""
		if why := r.unready.Load(); why != nil {
			got = *why
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r.note(false, "before the supervisor runs")
	says("")
	r.supervisor.Store(&agent.Status{})
	r.note(false, "first")
	r.note(false, "CDSReceived: connection refused")
	says("CDSReceived: connection refused")
	r.supervisor.Store(&agent.Status{Stopping: true})
	r.note(false, "stopping")
	says("CDSReceived: connection refused")

	r = &report{}
	r.supervisor.Store(&agent.Status{})
	r.note(false, "first")
	r.note(true, "")
	r.note(false, "later")
	says("")
}
