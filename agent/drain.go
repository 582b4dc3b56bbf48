package agent

import "slices"

// Command is a request to the running supervisor, from a person or a program.
type Command string

// The commands. A drain lasts: an epoch that serves later, after a handover or a crash, is drained as well. Envoy cannot
// undo the drain of its connections, so a drain ends with a handover to an epoch that was not drained.
const (
	Nothing Command = ""        // no command: the caller tests whether the loop answers
	Drain   Command = "drain"   // out of service, and inbound connections close with their next answer
	Resume  Command = "resume"  // the drain is over
	Recheck Command = "recheck" // a configuration that was refused is checked again
	Leave   Command = "leave"   // end as soon as nothing is under way, and leave Envoy to another image of the agent
)

func (d *decision) commanded(c Command) {
	if d.stopping.stage != notStopping {
		return
	}
	switch {
	case c == Leave:
		d.leave()
	case c == Recheck:
		d.recheck()
	case c == Drain && !d.drained:
		d.drained = true
		d.note(Drained, -1, "")
		for i := range d.epochs {
			if e := &d.epochs[i]; !e.liveAt.IsZero() && !e.draining {
				d.drainInbound(e)
			}
		}
	case c == Resume && d.outOfService():
		d.drained = false
		d.note(Resumed, -1, "")
		if d.mustRefresh() && !d.awaitsNewcomer() {
			d.quiet()
		}
	}
}

// mustRefresh reports whether the newest epoch is still drained after Resume.
func (s *state) mustRefresh() bool {
	newest := s.newest()
	return !s.drained && newest != nil && newest.drainedInbound
}

func (d *decision) drainInbound(e *epoch) {
	if !e.drainedInbound && !e.killed {
		e.drainedInbound, e.awaitsDrain = true, true
		d.do(drainInbound{e.Epoch, false})
	}
}

// awaitsDrain reports whether an Envoy has not answered yet that it drains.
func (s *state) awaitsDrain() bool {
	return slices.ContainsFunc(s.epochs, func(e epoch) bool { return e.awaitsDrain })
}

// outOfService reports whether the epoch that serves is drained, or is about to be.
func (s *state) outOfService() bool {
	for _, e := range s.epochs {
		if e.drainedInbound && !e.draining {
			return true
		}
	}
	return s.drained
}
