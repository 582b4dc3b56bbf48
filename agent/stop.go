package agent

import (
	"slices"
	"syscall"
	"time"
)

// stopping is the state of the shutdown. The zero value is: no shutdown.
type stopping struct {
	stage  stopStage
	asked  time.Time // time of the first command to stop; zero without one
	due    time.Time // when the next stage is entered at the latest
	gaveUp *GaveUp   // why, when the supervisor stops by its own decision
}

type stopStage int

const (
	notStopping     stopStage = iota
	drainingInbound           // still serving; leaves as soon as nothing is in flight
	terminating               // TERM was sent
	killing                   // KILL was sent
	finished                  // every process is reaped
)

// repeated is the time after the first command to stop in which a second one is ignored: many senders signal twice.
const repeated = 2 * time.Second

// killGrace is how long Envoy has after TERM: it needs 10 to 600 ms, more on a busy machine.
const killGrace = 3 * time.Second

// terminate enters the next stage: the first time Envoy may finish its work, the second time it must leave, the third
// time it is killed. A call right after the first one does not count.
func (d *decision) terminate() {
	if d.stopping.stage != notStopping && d.now.Sub(d.stopping.asked) < repeated {
		return
	}
	switch d.stopping.stage {
	case notStopping:
		d.beginStop()
	case drainingInbound:
		d.term()
	case terminating:
		d.killAll()
	}
}

// quit ends Envoy without a drain: what is in flight is cut.
func (d *decision) quit() {
	if d.stopping.stage == notStopping {
		d.beginStop()
	}
	if d.stopping.stage == drainingInbound {
		d.term()
		return
	}
	d.terminate()
}

func (d *decision) beginStop() {
	d.note(Stopping, -1, "")
	d.stopping.stage, d.stopping.asked, d.stopping.due = drainingInbound, d.now, d.now.Add(d.TerminationDrain)
	d.handover, d.retryAt, d.leaveBy = handover{}, time.Time{}, time.Time{}
	for i := range d.epochs {
		switch e := &d.epochs[i]; {
		case e.liveAt.IsZero() && len(d.epochs) > 1:
			d.kill(e) // TERM would take its parent along
		case e.liveAt.IsZero():
			d.term() // nothing is in flight
		default:
			d.do(drainInbound{e.Epoch, true})
		}
	}
}

func (d *decision) term() {
	d.stopping.stage, d.stopping.due = terminating, d.now.Add(killGrace)
	for _, e := range d.epochs {
		if !e.killed {
			d.do(signal{e.Epoch, syscall.SIGTERM})
		}
	}
}

func (d *decision) killAll() {
	d.stopping.stage, d.stopping.due = killing, time.Time{}
	for i := range d.epochs {
		d.kill(&d.epochs[i])
	}
}

// giveUp ends the supervisor by its own decision. It does not wait for epochs that still drain, since the caller waits
// for the exit status.
func (d *decision) giveUp(why *GaveUp) {
	d.handover, d.retryAt, d.leaveBy = handover{}, time.Time{}, time.Time{}
	d.stopping.gaveUp = why
	d.term()
}

func (d *decision) advanceStop() {
	switch s := &d.stopping; {
	case s.stage == finished:
	case len(d.epochs) == 0:
		s.stage, s.due = finished, time.Time{}
		d.do(finish{s.gaveUp})
	case s.stage == drainingInbound && (d.allIdle() && !d.WaitOut || d.due(s.due)):
		d.term()
	case s.stage == terminating && d.due(s.due):
		d.killAll()
	}
}

// allIdle reports whether no epoch has work left. A newcomer that terminates ends its parent too, so all processes end
// together.
func (d *decision) allIdle() bool {
	for _, e := range d.epochs {
		if !e.idle && !e.killed {
			return false
		}
	}
	return true
}

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
