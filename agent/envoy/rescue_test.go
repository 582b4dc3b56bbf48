package envoy

import (
	"errors"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// What stands in for a parent ends with the last process of the family: while its socket is open, the family counts as in use,
// and its shared memory is not removed.
func TestARescueEndsWithItsFamily(t *testing.T) {
	s := hotrestart.Sockets{Dir: t.TempDir(), Token: newToken(), BaseID: newBaseID(t)}
	newcomer := &process{launch: agent.Launch{Epoch: 1, Family: 7}}
	p := &Proxy{families: map[int]hotrestart.Sockets{7: s}, processes: map[int]*process{1: newcomer}}
	bound := func() bool {
		t.Helper()
		is, err := s.BaseID.InUse()
		must(t, err)
		return is
	}
	rescue := func() error { return p.Rescue(t.Context(), agent.Launch{Family: 7}, time.Now().Add(time.Minute)) }
	ended := make(chan error)
	go func() { ended <- rescue() }()
	must(t, lab.Eventually(lab.StopLimit, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.rescues) == 0 {
			return errors.New("nothing stands in for the parent")
		}
		return nil
	}))
	p.forget(newcomer)
	if bound() {
		t.Error("its socket is there when the family has ended")
	}
	if err := <-ended; err != nil || len(p.rescues) > 0 {
		t.Errorf("it ended with %v, and %d are left", err, len(p.rescues))
	}
	if err := rescue(); err != nil || bound() {
		t.Errorf("one of a family that has ended: %v, bound: %t", err, bound())
	}
}
