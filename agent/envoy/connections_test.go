package envoy

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

// One look may miss a connection that is accepted while it goes on, just before the listener is closed.
func TestIdleAtTheSecondLookThatShowsNothing(t *testing.T) {
	pid, _ := sleeper(t)
	c := &process{Proxy: &Proxy{Log: slog.New(slog.DiscardHandler)}, pid: pid}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var reports []agent.Report
		c.awaitNoConnection(t.Context(), func(r agent.Report) { reports = append(reports, r) })
		if took := time.Since(began); len(reports) != 1 || reports[0] != agent.Idle || took != calm {
			t.Errorf("reports %v after %s, want idle once, at the second look after %s", reports, took, calm)
		}
	})
}
