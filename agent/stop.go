package agent

import (
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
