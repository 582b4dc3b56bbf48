//go:build long

package agent

import (
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An upgrade that is asked for at any moment of a handover comes before it or after it: both happen, and no request fails.
func TestLongUpgradeAtAnyMomentOfAHandover(t *testing.T) {
	s := startStandalone(t)
	load := s.load()
	const moments = 15
	waited := 0
	for i := range moments {
		s.configure(2 + i)
		<-time.After(time.Duration(i) * 1500 * time.Millisecond / moments)
		s.Signal(syscall.SIGUSR2)
		if a, err := s.ask(); err == nil && len(a.Epochs) > 1 {
			waited++
		}
		s.upgraded(i + 1)
		s.must(s.awaitRevision(2+i, handoverLimit))
		s.must(s.awaitAlone(handoverLimit))
	}
	lab.Unharmed(t, load)
	a, err := s.ask()
	s.must(err)
	if got := a.Counts["handed over to a newcomer"]; got != moments || a.Upgrades.Count != moments || a.Counts["starting Envoy"] != 1+moments {
		t.Errorf("%d handovers, want %d: %+v", got, moments, a)
	}
	t.Logf("%d of %d upgrades were asked for while two Envoys lived", waited, moments)
	if waited == 0 {
		t.Error("no upgrade was asked for while two Envoys lived: nothing is shown")
	}
}
