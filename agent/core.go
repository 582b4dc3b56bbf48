package agent

import (
	"slices"
	"syscall"
	"time"
)

// Settings are the limits of the supervisor. They never change while it runs.
type Settings struct {
	HandoverWay      Way           // Auto, Hot or SideBySide
	HandoverTimeout  time.Duration // how long a newcomer has to become live
	ParentShutdown   time.Duration // how long a replaced epoch may finish its work
	TerminationDrain time.Duration // how long the work in flight has when the supervisor stops
	WaitOut          bool          // use all of TerminationDrain, also with nothing in flight: clients may still connect
	RestartBudget    int           // how many failures in a row are retried
	BackOffBase      time.Duration // delay before the first retry; it doubles with each
}

// state is the whole state of the supervisor: plain data, no clock, no channel. The zero value, with a seed, is a
// supervisor that has not started.
type state struct {
	desired  Config  // the last configuration received
	good     Config  // the last configuration that went live; the zero Config before that
	refusal  refusal // why desired does not run; zero when it runs, or may still start
	epochs   []epoch // living processes, oldest first
	families int     // started so far
	handover handover
	took     time.Duration // by the last handover, from its first change until the newcomer was live

	failures int           // not forgiven yet for served time
	saved    int           // restarts beyond the budget, earned by served time
	served   time.Duration // service time that has not earned a restart yet
	retryAt  time.Time     // when the next epoch is due; zero when none is
	seed     uint64        // of the back-off's jitter

	drained  bool // by command: it serves on, but is out of service
	stopping stopping

	leaveBy time.Time // when the command Leave is given up; zero without one
	held    time.Time // until when a parent that ended is stood in for
}

// refusal is why a configuration does not run, and since when.
type refusal struct {
	config Config
	reason string
	at     time.Time
}

// Events of the supervisor.
type (
	configured struct{ config Config } // this is now desired
	checked    struct {                // a check has ended
		config Config
		hot    bool   // the running Envoy and the new one can hand over by hot restart
		fault  string // empty: config may run
	}
	live       struct{ epoch int } // the epoch serves
	fit        struct{ epoch int } // the epoch is held, and could take over
	news       struct{ epoch int } // the epoch has got configuration, or its stream to discovery has changed
	draining   struct{ epoch int } // Envoy has answered the order to let inbound connections end, or does not answer
	incomplete struct{ epoch int } // another epoch of the same configuration would serve more
	idle       struct{ epoch int } // the epoch drains, and no work is left
	hung       struct{ epoch int } // the epoch hangs: it does not serve, and will not recover
	exited     struct {            // the process is reaped, or could not be started
		epoch int
		exit  Exit
	}
	tick      struct{} // the time that wake returned has come
	terminate struct{} // stop; the second one ends the drain, the third one kills
	quit      struct{} // stop without a drain; a later one kills
	commanded struct{ command Command }
)

// event is one of the above.
type event interface{ event() }

func (configured) event() {}
func (checked) event()    {}
func (live) event()       {}
func (fit) event()        {}
func (news) event()       {}
func (draining) event()   {}
func (incomplete) event() {}
func (idle) event()       {}
func (hung) event()       {}
func (exited) event()     {}
func (tick) event()       {}
func (terminate) event()  {}
func (quit) event()       {}
func (commanded) event()  {}

// Actions of the supervisor: the core returns them, and the loop performs them.
type (
	check  struct{ config Config }
	start  struct{ launch Launch }
	signal struct {
		epoch  int
		signal syscall.Signal
	}
	drain        struct{ epoch int } // close its listeners; report when it is idle
	drainInbound struct {            // let inbound connections end, and serve on
		epoch     int
		untilIdle bool // report when it is idle
	}
	open   struct{ epoch int }     // let it take over from its parent
	await  struct{ epoch int }     // its newcomer drains it; report when it is idle
	repair struct{ launch Launch } // a newcomer failed: undo its changes to its family
	rescue struct {                // a parent died before its newcomer ended it: receive the newcomer's message in its place
		launch Launch
		until  time.Time
	}
	finish struct{ gaveUp *GaveUp } // nil when the supervisor was asked to stop
	leave  struct{}                 // end, and leave the processes
)

// action is one of the above, or noted.
type action interface{ action() }

func (check) action()        {}
func (start) action()        {}
func (signal) action()       {}
func (drain) action()        {}
func (drainInbound) action() {}
func (open) action()         {}
func (await) action()        {}
func (repair) action()       {}
func (rescue) action()       {}
func (finish) action()       {}
func (leave) action()        {}
func (noted) action()        {}

// next returns the state after an event, and the actions to perform.
func (c Settings) next(s state, happened event, now time.Time) (state, []action) {
	s.epochs = slices.Clone(s.epochs)
	d := &decision{Settings: c, state: s, now: now}
	switch e := happened.(type) {
	case configured:
		d.configured(e.config)
	case checked:
		d.checked(e)
	case live:
		d.live(e.epoch)
	case fit:
		d.fit(e.epoch)
	case news:
		d.recheck()
	case draining:
		if e := d.find(e.epoch); e != nil {
			e.awaitsDrain = false
		}
	case incomplete:
		d.incomplete(e.epoch)
	case idle:
		d.idle(e.epoch)
	case hung:
		d.hung(e.epoch)
	case exited:
		d.exited(e.epoch, e.exit)
	case terminate:
		d.terminate()
	case quit:
		d.quit()
	case commanded:
		d.commanded(e.command)
	}
	d.advance()
	return d.state, d.actions
}

// decision is one call of next: a copy of the state, changed step by step, and the actions.
type decision struct {
	Settings
	state
	now     time.Time
	actions []action
}

func (d *decision) do(a action) { d.actions = append(d.actions, a) }

// advance takes every step that is due.
func (d *decision) advance() {
	if d.stopping.stage != notStopping {
		d.advanceStop()
		return
	}
	for i := range d.epochs {
		if e := &d.epochs[i]; d.due(e.deadline) {
			d.note(Late, e.Epoch, "")
			e.late = true
			d.kill(e)
		}
	}
	d.advanceHandover()
	if d.due(d.retryAt) {
		d.startFresh()
	}
	d.advanceLeave()
}

// due reports whether a time is set and has come.
func (d *decision) due(t time.Time) bool { return !t.IsZero() && !d.now.Before(t) }

// wake returns when the next tick is due, zero for never.
func (s state) wake() time.Time {
	if s.stopping.stage != notStopping {
		return s.stopping.due
	}
	var first time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for _, e := range s.epochs {
		earlier(e.deadline)
	}
	earlier(s.retryAt)
	earlier(s.handover.due)
	if !s.leaveBy.IsZero() {
		earlier(s.leaveBy)
		earlier(s.held)
	}
	return first
}

// hung kills a hanging epoch that serves or starts. An epoch that only drains has a deadline of its own.
func (d *decision) hung(number int) {
	if e := d.find(number); e != nil && !e.killed && (!e.draining || d.stopping.stage != notStopping) {
		d.note(Hanging, number, "")
		d.kill(e)
	}
}
