package agent

import (
	"slices"
	"syscall"
	"time"
)

// Settings bound what the supervisor does. They never change while it runs.
type Settings struct {
	HandoverWay      Way           // Auto, Hot or SideBySide
	HandoverTimeout  time.Duration // how long a newcomer has to become live
	ParentShutdown   time.Duration // how long a replaced epoch may finish its work
	TerminationDrain time.Duration // how long the work in flight has when the supervisor stops
	WaitOut          bool          // all of TerminationDrain, though nothing is in flight: others may still find their way here
	RestartBudget    int           // how many failures in a row are retried
	BackOffBase      time.Duration // delay before the first retry; it doubles with each
}

// state is everything that the supervisor knows: plain data, no clock, no channel. The zero value, with a seed, is a
// supervisor that has not started.
type state struct {
	desired  Config  // what was last asked for
	good     Config  // what last went live; the zero Config while nothing has
	refusal  refusal // why desired is not what runs; zero when it is, or may yet
	epochs   []epoch // living processes, oldest first
	families int     // started so far
	handover handover
	took     time.Duration // by the last handover, from the first change that it answers until the newcomer was live

	failures int           // not forgiven yet for served time
	saved    int           // restarts beyond the budget, for served time
	served   time.Duration // time that has not become a restart yet
	retryAt  time.Time     // when the next epoch is due; zero when none is
	seed     uint64        // of the back-off's jitter

	drained  bool // asked to serve on, but to be out of service
	stopping stopping
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
		fault  string // empty: it may run
	}
	live   struct{ epoch int } // it serves
	idle   struct{ epoch int } // it drains, and has nothing left to do
	hung   struct{ epoch int } // it neither serves nor will
	exited struct {            // the process is reaped, or could not be started
		epoch int
		exit  Exit
	}
	tick      struct{} // the time that wake named has come
	terminate struct{} // stop; a later one hurries, a third kills
	commanded struct{ command Command }
)

// event is one of the above.
type event interface{ event() }

func (configured) event() {}
func (checked) event()    {}
func (live) event()       {}
func (idle) event()       {}
func (hung) event()       {}
func (exited) event()     {}
func (tick) event()       {}
func (terminate) event()  {}
func (commanded) event()  {}

// Actions that the supervisor asks for.
type (
	check  struct{ config Config }
	start  struct{ launch Launch }
	signal struct {
		epoch  int
		signal syscall.Signal
	}
	drain        struct{ epoch int } // close its listeners; say when it is idle
	drainInbound struct {            // let inbound connections end, serving on
		epoch     int
		untilIdle bool // say when it is idle
	}
	await  struct{ epoch int }     // its newcomer drains it; say when it is idle
	repair struct{ launch Launch } // a newcomer failed: undo what it did to its family
	rescue struct {                // a parent died in the overlap: answer its newcomer in its place
		launch Launch
		until  time.Time
	}
	finish struct{ gaveUp *GaveUp } // nil: as asked
)

// action is one of the above, or noted.
type action interface{ action() }

func (check) action()        {}
func (start) action()        {}
func (signal) action()       {}
func (drain) action()        {}
func (drainInbound) action() {}
func (await) action()        {}
func (repair) action()       {}
func (rescue) action()       {}
func (finish) action()       {}
func (noted) action()        {}

// next returns the state after an event, and the actions that it asks for.
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
	case idle:
		d.idle(e.epoch)
	case hung:
		d.hung(e.epoch)
	case exited:
		d.exited(e.epoch, e.exit)
	case terminate:
		d.terminate()
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

// advance does everything whose time has come.
func (d *decision) advance() {
	if d.stopping.stage != notStopping {
		d.advanceStop()
		return
	}
	for i := range d.epochs {
		if e := &d.epochs[i]; d.due(e.deadline) {
			d.note(Late, e.Epoch, "")
			d.kill(e)
		}
	}
	d.advanceHandover()
	if d.due(d.retryAt) {
		d.startFresh()
	}
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
	return first
}

// hung kills a hanging epoch that serves or starts. An epoch that only drains has a deadline of its own.
func (d *decision) hung(number int) {
	if e := d.find(number); e != nil && !e.killed && (!e.draining || d.stopping.stage != notStopping) {
		d.note(Hanging, number, "")
		d.kill(e)
	}
}
