package agent

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// steps of an upgrade, in their order: of package agent/handoff.
var (
	oldSteps = []string{"fetched", "left", "shut", "packed", "held", "sealed"}
	newSteps = []string{"started", "received", "decoded", "slotted", "adopting", "accepted", "served"}
	wayBack  = []string{"decoded", "slotted", "adopting"} // until then the image before goes on
)

// An agent that is killed at any step of an upgrade, or of the way back from one, leaves no Envoy behind, and the next one starts.
func TestUpgradeAndKillAtAStep(t *testing.T) {
	t.Parallel()
	binary := tagged(t, "upgradesteps")
	type strike struct{ name, one, other string } // what happens to the old image and to the new one
	var strikes []strike
	for _, step := range oldSteps {
		strikes = append(strikes, strike{"old image " + step, "kill " + step, ""})
	}
	for _, step := range newSteps {
		strikes = append(strikes, strike{"new image " + step, "", "kill " + step})
	}
	strikes = append(strikes, strike{"on the way back", "", "panic adopting\nkill back"})
	for _, step := range newSteps {
		strikes = append(strikes, strike{"old image again " + step, "kill " + step, "panic adopting"})
	}
	for _, strike := range strikes {
		t.Run(strings.ReplaceAll(strike.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newStandalone(t)
			one, other := s.beside(binary)
			envoy := s.pid("serving")
			s.must(os.WriteFile(one+".step", []byte(strike.one+"\n"), 0o600))
			s.must(os.WriteFile(other+".step", []byte(strike.other+"\n"), 0o600))
			_ = s.upgrade(other) // whether it is answered depends on the step
			_, err := s.Wait(lab.StopLimit)
			s.must(err)
			s.must(gone(lab.StopLimit, envoy))
			for _, image := range []string{one, other} {
				if left, err := os.ReadFile(image + ".step"); err != nil || strings.TrimSpace(string(left)) != "" {
					t.Errorf("not struck: %q, %v", left, err)
				}
			}
			next, began := *s, time.Now()
			next.launchIn(s.Sidecar)
			next.must(next.awaitRevision(1, startLimit))
			t.Logf("serving again after %s", time.Since(began).Round(time.Millisecond))
		})
	}
}

// An image that panics before it has taken over gives the process back, whatever it has done by then. Envoy notices nothing.
func TestUpgradePanics(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	one, other := s.beside(tagged(t, "upgradesteps"))
	load, before := s.lightLoad(), s.vitals()
	for _, step := range wayBack {
		s.must(os.WriteFile(other+".step", []byte("panic "+step+"\n"), 0o600))
		if err := s.upgrade(other); err == nil || !strings.Contains(err.Error(), "struck at "+step) {
			t.Errorf("%s: got %v", step, err)
		}
		after := s.vitals()
		if after.image != one || after.envoy != before.envoy || after.restart != before.restart || after.children != 1 {
			t.Errorf("%s: it goes on with %+v, before %+v", step, after, before)
		}
	}
	s.must(s.upgrade(other))
	s.handOver(2)
	lab.Unharmed(t, load)
}
