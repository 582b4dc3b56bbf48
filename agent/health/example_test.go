package health_test

import (
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// An Envoy that is LIVE, though all that discovery sent first was rejected.
func ExampleState_Next() {
	none := int64(0)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	state := health.State{}.Next(health.Observation{
		Pid: 7, Process: health.Running, AdminExpected: true, Answer: &health.Answer{Ready: true, State: "LIVE"},
		AsksCDS: true, AsksLDS: true,
		Config: &health.Config{
			CDS: health.Updates{Success: 1}, LDS: health.Updates{Rejected: 1}, WorkersStarted: true, Dynamic: &none,
		},
	}, now)
	verdict := state.Verdict(now)
	fmt.Println(verdict.Ready, verdict.Reason())
	// Output: false ListenersBound: every listener of discovery was rejected
}
