package agent

// Wish is what somebody beside the configuration wants of the supervisor.
type Wish string

// The wishes. A drain lasts: whichever epoch serves later, after a handover or a crash, is drained as well. Envoy cannot
// take back what it has told its connections, so the end of a drain is a handover to an epoch that was not told.
const (
	Nothing Wish = ""       // but to know that the loop answers
	Drain   Wish = "drain"  // out of service, and inbound connections close with their next answer
	Resume  Wish = "resume" // the drain is over
)

func (d *decision) wished(w Wish) {
	if d.stopping.stage != notStopping {
		return
	}
	switch {
	case w == Drain && !d.drained:
		d.drained = true
		d.note(Drained, -1, "")
		for i := range d.epochs {
			if e := &d.epochs[i]; !e.liveAt.IsZero() && !e.draining {
				d.fade(e)
			}
		}
	case w == Resume && d.outOfService():
		d.drained = false
		d.note(Resumed, -1, "")
		if d.mustRefresh() && d.handover.stage != starting {
			d.quiet()
		}
	}
}

// mustRefresh reports whether the newest epoch is drained though nobody wants that any more.
func (s *state) mustRefresh() bool {
	newest := s.newest()
	return !s.drained && newest != nil && newest.faded
}

func (d *decision) fade(e *epoch) {
	if !e.faded && !e.killed {
		e.faded = true
		d.do(fade{e.Epoch})
	}
}

// outOfService reports whether who serves is drained, or shall be.
func (s *state) outOfService() bool {
	for _, e := range s.epochs {
		if e.faded && !e.draining {
			return true
		}
	}
	return s.drained
}
