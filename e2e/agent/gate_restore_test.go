package agent

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A trial is good, and then the newcomer is not: discovery goes away between both, or sends a listener that Envoy refuses. The
// newcomer is held until its time is over, and has closed the admin of its parent, which serves on; so does the parent while another
// Envoy of its own configuration cannot take its place either. When discovery is well again the configuration is in force.
func TestGateHoldsANewcomerAfterAGoodTrial(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		ruin, mend func(g *gated, s *script)
		reason     string
	}{
		{
			"discovery goes away",
			func(_ *gated, s *script) { go s.goAway() }, // which waits for this stream
			func(_ *gated, s *script) { s.comeBack() }, " has not answered",
		},
		{
			"a listener is refused",
			func(g *gated, s *script) { s.listeners(badListener("inbound", g.address)) },
			func(g *gated, s *script) { s.listeners(listenerOf("inbound", g.address, 1)) }, "it has no listener at ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			discovery := startScript(t)
			g := newGated(t)
			g.overADS(discovery)
			g.configure(1)
			g.run("--handoverTimeout", "10s")
			load, parent := g.lightLoad(), g.pid("serving")
			discovery.onStream(func(stream int) {
				if stream == 3 { // after those of the parent and of the trial
					test.ruin(g, discovery)
				}
			})
			g.configure(2)
			g.must(g.awaitStatus(startLimit*3, "two newcomers that were held", func(a agentStatus) bool {
				return a.Counts["a newcomer failed, its parent serves on"] == 2 && len(a.Epochs) == 1
			}))
			a, err := g.ask()
			if g.must(err); a.Refusal == nil || !strings.Contains(a.Refusal.Reason, "newcomer held back: ") || !strings.Contains(a.Refusal.Reason, test.reason) {
				t.Errorf("refused is %+v, want newcomer held back: %s", a.Refusal, test.reason)
			}
			if pid := g.pid("serving"); pid != parent {
				t.Errorf("process %d serves, want still %d", pid, parent)
			}
			test.mend(g, discovery)
			g.Signal(syscall.SIGHUP)
			g.takesOver()
			g.must(g.awaitRevision(1, startLimit))
			lab.Unharmed(t, load)
			g.must(lab.Eventually(lab.StopLimit, func() error {
				stats, err := lab.Get("http://" + g.Admin + "/stats?filter=^server.state$")
				if err == nil && !strings.Contains(stats, "server.state") {
					err = fmt.Errorf("the admin's front answers %.200q", stats)
				}
				return err
			}))
		})
	}
}
