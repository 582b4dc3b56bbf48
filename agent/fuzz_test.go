package agent

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// world is the result of the core's actions: the processes that really run.
type world struct {
	t       *testing.T
	state   state
	now     time.Time
	alive   []process // oldest first
	asked   bool      // terminate was said
	checks  []Config
	ended   bool
	drained bool // was commanded last
	configs int

	unjudged bool // it began with a state that no supervisor has left: invariants need not hold
}

type process struct {
	Launch
	live, killed, drainedInbound bool
}

// FuzzNext passes any sequence of events to the core and checks the invariants.
func FuzzNext(f *testing.F) {
	f.Add([]byte{0, 1, 0, 7, 3, 1, 2, 2, 7, 7})                   // a handover, then a crash
	f.Add([]byte{0, 1, 0, 7, 3, 10, 7, 7, 3, 10, 7, 3, 10})       // newcomers that fail
	f.Add([]byte{0, 1, 0, 7, 3, 2, 2, 2, 2, 7, 2, 7, 2, 7, 2, 7}) // crashes until it gives up
	f.Add([]byte{0, 1, 0, 7, 3, 7, 10, 9, 7, 3, 1, 2})            // a newcomer that is held, and news
	f.Add([]byte{0, 1, 0, 7, 3, 1, 8, 8, 6, 6, 2, 2})             // a stop in the overlap
	f.Add([]byte{0, 1, 0, 0, 0, 7, 7, 3, 7, 1, 2, 7, 2, 7})       // the supervisor leaves
	f.Fuzz(func(t *testing.T, script []byte) {
		w := &world{t: t, now: origin}
		for _, b := range script {
			if w.ended {
				return
			}
			w.now = w.now.Add(time.Duration(b>>4) * 700 * time.Millisecond)
			w.blow(b & 15)
		}
		w.bury()
	})
}

// blow makes one event happen.
func (w *world) blow(b byte) {
	switch n := len(w.alive); b {
	case 0:
		w.configs++
		w.feed(configured{Config{Bootstrap: fmt.Sprint(w.configs)}})
	case 9:
		if n > 0 {
			w.feed(news{w.alive[0].Epoch})
			w.feed(fit{w.alive[n-1].Epoch})
		}
		if n := len(w.alive); n > 0 && w.configs%3 == 0 {
			w.feed(incomplete{w.alive[n-1].Epoch})
		}
	case 1:
		if n > 0 && !w.alive[n-1].killed {
			w.alive[n-1].live = true
			w.feed(live{w.alive[n-1].Epoch})
		}
	case 2, 10:
		if n > 0 {
			w.exit(n-1, Exit{Code: int(b) & 1, Held: map[bool]string{true: "held"}[b == 10], Blinded: w.configs%2 == 0})
		}
	case 12:
		w.drained = true
		w.feed(commanded{Drain})
	case 15:
		w.drained = false
		w.feed(commanded{Resume})
	case 4:
		if n > 1 {
			w.exit(0, Exit{Code: -1, Signal: syscall.SIGKILL})
		}
	case 3, 11:
		if len(w.checks) > 0 {
			config := w.checks[0]
			w.checks = w.checks[1:]
			fault := map[bool]string{true: "refused"}[b == 11 && w.configs%3 == 0]
			w.feed(checked{config, w.configs%4 != 0, fault})
		}
	case 5, 13:
		if n > 0 {
			w.feed(hung{w.alive[int(b>>3)%n].Epoch})
		}
	case 6, 14:
		if n > 0 {
			w.feed(idle{w.alive[int(b>>3)%n].Epoch})
		}
	case 7:
		if w.configs%5 == 4 {
			w.feed(commanded{Leave})
		}
		if wake := w.state.wake(); !wake.IsZero() && wake.After(w.now) {
			w.now = wake
		}
		w.feed(tick{})
	case 8:
		w.asked = true
		if w.configs%2 == 0 {
			w.feed(quit{})
		} else {
			w.feed(terminate{})
		}
	}
}

// exit lets a process end, and those that were killed go with it.
func (w *world) exit(i int, exit Exit) {
	number := w.alive[i].Epoch
	w.alive = slices.Delete(w.alive, i, i+1)
	w.feed(exited{number, exit})
}

// bury stops the supervisor, with processes that obey every order: it must end, and soon.
func (w *world) bury() {
	w.asked = true
	w.feed(terminate{})
	for range 100 {
		if w.ended {
			return
		}
		for i := len(w.alive) - 1; i >= 0; i-- {
			if w.alive[i].killed {
				w.exit(i, Exit{Code: -1, Signal: syscall.SIGKILL})
			}
		}
		w.blow(7)
	}
	w.t.Fatalf("it does not come to its end: %+v", w.state)
}

func (w *world) feed(happened event) {
	var actions []action
	w.state, actions = settings.next(w.state, happened, w.now)
	for _, action := range actions {
		w.perform(action)
	}
	if !w.unjudged {
		w.invariants(happened)
	}
}

func (w *world) perform(todo action) {
	switch a := todo.(type) {
	case start:
		w.started(a.launch)
	case signal:
		w.signalled(a)
	case check:
		w.checks = append(w.checks, a.config)
	case drain:
		if p := w.find(a.epoch); p == nil || !p.live {
			w.t.Fatalf("epoch %d is told to drain, alive are %v", a.epoch, w.alive)
		}
	case open:
		if p := w.find(a.epoch); p == nil || p.live || p.killed || w.asked {
			w.t.Fatalf("epoch %d may take over, alive are %v", a.epoch, w.alive)
		}
	case drainInbound:
		if a.untilIdle {
			break
		}
		if p := w.find(a.epoch); p == nil || !p.live || p.drainedInbound || !w.drained {
			w.t.Fatalf("epoch %d is drained, commanded %v, alive are %+v", a.epoch, w.drained, w.alive)
		} else {
			p.drainedInbound = true
		}
	case leave:
		w.leave()
	case finish:
		if w.ended || len(w.alive) > 0 {
			w.t.Fatalf("finished with %v alive", w.alive)
		}
		w.ended = true
	}
}

// leave goes on with a supervisor that has read the state of the one before.
func (w *world) leave() {
	if len(w.alive) > 1 || len(w.alive) == 1 && (!w.alive[0].live || w.alive[0].killed) || w.asked {
		w.t.Fatalf("it leaves with %+v alive, asked to stop %v", w.alive, w.asked)
	}
	carried := carriedOver(w.t, w.state.carry(&history{}))
	if err := carried.Check(); err != nil {
		w.t.Fatalf("it leaves a state that is refused: %v: %+v", err, carried)
	}
	w.state, w.checks = carried.state(w.now), nil
}

func (w *world) started(l Launch) {
	if w.asked || w.ended {
		w.t.Fatalf("epoch %d is started after the stop", l.Epoch)
	}
	want := 0
	if n := len(w.alive); n > 0 {
		want = w.alive[n-1].Epoch + 1
		if parent := w.alive[n-1]; l.Hot() && (!parent.live || parent.killed || parent.Family != l.Family || parent.Restart+1 != l.Restart) {
			w.t.Fatalf("%+v is started as a child of %+v", l, parent)
		}
	} else if l.Hot() {
		w.t.Fatalf("%+v is started hot, without a parent", l)
	}
	if l.Epoch != want {
		w.t.Fatalf("epoch %d is started while %v live, want %d", l.Epoch, w.alive, want)
	}
	w.alive = append(w.alive, process{Launch: l})
}

func (w *world) signalled(s signal) {
	p := w.find(s.epoch)
	switch {
	case p == nil:
		w.t.Fatalf("%s to epoch %d, which does not live", s.signal, s.epoch)
	case s.signal == syscall.SIGKILL:
		p.killed = true
	case !p.live && p.Hot() && w.find(s.epoch-1) != nil && w.find(s.epoch-1).Family == p.Family:
		w.t.Fatalf("%s to newcomer %d: it would take its parent along", s.signal, s.epoch)
	}
}

func (w *world) find(epoch int) *process {
	for i := range w.alive {
		if w.alive[i].Epoch == epoch {
			return &w.alive[i]
		}
	}
	return nil
}

// invariants hold after every event.
func (w *world) invariants(happened event) {
	s := w.state
	if len(s.epochs) != len(w.alive) {
		w.t.Fatalf("after %T: the core knows %d epochs, %d live", happened, len(s.epochs), len(w.alive))
	}
	hopeful := 0
	for _, p := range w.alive {
		if !p.killed {
			hopeful++
		}
	}
	switch {
	case s.failures < 0 || s.failures > settings.RestartBudget+s.saved+1 || s.saved > savedBudgets*settings.RestartBudget:
		w.t.Fatalf("after %T: %d failures of a budget of %d and %d", happened, s.failures, settings.RestartBudget, s.saved)
	case !w.ended && !w.asked && w.configs > 0 && len(w.alive) == 0 && s.wake().IsZero():
		w.t.Fatalf("after %T: nothing lives and nothing is due", happened)
	case w.drained && s.stopping.stage == notStopping && !s.outOfService():
		w.t.Fatalf("after %T: in service though drained", happened)
	case w.drained && s.stopping.stage == notStopping && slices.ContainsFunc(s.epochs, undrained):
		w.t.Fatalf("after %T: serves though drained: %+v", happened, w.alive)
	case s.stopping.stage == notStopping && !w.goesOn():
		w.t.Fatalf("after %T: a handover that nothing ends: %+v, alive are %+v, checks of %+v", happened, s.handover, w.alive, w.checks)
	case hopeful > 3:
		w.t.Fatalf("after %T: %d processes: %+v", happened, hopeful, w.alive)
	}
}

// goesOn reports whether an event is to come for which the handover waits.
func (w *world) goesOn() bool {
	newest := w.state.newest()
	switch h := w.state.handover; h.stage {
	case quiet, refused:
		return !h.due.IsZero()
	case checking:
		return slices.Contains(w.checks, w.state.desired)
	case gated:
		return !h.due.IsZero() || len(w.alive) > 1 || newest == nil || newest.killed || newest.liveAt.IsZero()
	case starting, restoring:
		return newest != nil && newest.liveAt.IsZero()
	}
	return true
}

// undrained reports whether an epoch serves and has received no order to drain.
func undrained(e epoch) bool {
	return !e.liveAt.IsZero() && !e.draining && !e.killed && !e.drainedInbound
}
