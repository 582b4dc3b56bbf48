package agent

import (
	"slices"
	"syscall"
	"time"
)

// Settings bound what the supervisor does. They never change while it runs.
type Settings struct {
	RestartBudget    int           // how many failures in a row are retried
	BackOffBase      time.Duration // delay before the first retry; it doubles with each
	TerminationDrain time.Duration // how long an epoch has between TERM and KILL
}

const (
	backOffCap   = 30 * time.Second // no delay is longer
	stablePeriod = 5 * time.Minute  // an epoch that served this long refills the budget
	jitter       = 0.2              // a delay varies by this share either way, so that a fleet does not restart as one
)

// state is everything that the supervisor knows: plain data, no clock, no channel. The zero value, with a seed,
// is a supervisor that has not started.
type state struct {
	epochs      []epoch   // living processes, oldest first
	failures    int       // in a row, since an epoch last served for stablePeriod
	served      bool      // some epoch has been live
	retryAt     time.Time // when the next epoch is due; zero when none is
	terminating bool
	killAt      time.Time // when what still lives is killed; zero when nothing is due
	seed        uint64    // of the jitter
}

type epoch struct {
	number int
	liveAt time.Time // zero before it is live
}

// What happens to the supervisor.
type (
	begin  struct{}            // the first epoch may start
	live   struct{ epoch int } // Envoy answers /ready with 200
	exited struct {            // the process is reaped, or could not be started
		epoch int
		exit  Exit
	}
	tick      struct{} // the time that wake named has come
	terminate struct{} // the supervisor shall stop
)

// What the supervisor wants done.
type (
	start  struct{ epoch int }
	signal struct {
		epoch  int
		signal syscall.Signal
	}
	finish struct{ gaveUp *GaveUp } // nil: as asked
)

// next decides what an event changes and what is to be done.
func (c Settings) next(s state, event any, now time.Time) (state, []any) {
	switch e := event.(type) {
	case begin:
		return s.startNext()
	case live:
		return s.markLive(e.epoch, now), nil
	case exited:
		return c.exited(s, e, now)
	case tick:
		return s.due(now)
	case terminate:
		return c.terminate(s, now)
	}
	return s, nil
}

// wake returns when the next tick is due, zero for never.
func (s state) wake() time.Time {
	if s.killAt.IsZero() || (!s.retryAt.IsZero() && s.retryAt.Before(s.killAt)) {
		return s.retryAt
	}
	return s.killAt
}

// startNext starts epoch newest + 1, or 0 when none lives.
func (s state) startNext() (state, []any) {
	number := 0
	if n := len(s.epochs); n > 0 {
		number = s.epochs[n-1].number + 1
	}
	s.epochs = append(slices.Clone(s.epochs), epoch{number: number})
	s.retryAt = time.Time{}
	return s, []any{start{number}}
}

func (s state) markLive(number int, now time.Time) state {
	s.epochs = slices.Clone(s.epochs)
	for i := range s.epochs {
		if s.epochs[i].number == number {
			s.epochs[i].liveAt = now
			s.served = true
		}
	}
	return s
}

// exited judges an exit by who it was, not by its status: nobody asked for it unless the supervisor is stopping.
func (c Settings) exited(s state, e exited, now time.Time) (state, []any) {
	i := slices.IndexFunc(s.epochs, func(ep epoch) bool { return ep.number == e.epoch })
	if i < 0 {
		return s, nil
	}
	gone := s.epochs[i]
	s.epochs = slices.Delete(slices.Clone(s.epochs), i, i+1)
	switch {
	case s.terminating && len(s.epochs) > 0:
		return s, nil
	case s.terminating:
		s.killAt = time.Time{}
		return s, []any{finish{}}
	}
	return c.failed(s, gone, e.exit, now)
}

// failed spends the budget and plans the retry. The time that the epoch was live counts against the delay: one that
// served for a while is replaced at once, one that dies young waits.
func (c Settings) failed(s state, gone epoch, exit Exit, now time.Time) (state, []any) {
	var lived time.Duration
	if !gone.liveAt.IsZero() {
		lived = now.Sub(gone.liveAt)
	}
	if lived >= stablePeriod {
		s.failures = 0
	}
	refused := !s.served && exit.Code == 1
	s.failures++
	if s.failures > c.budget(refused) {
		return s, []any{finish{&GaveUp{Exit: exit, Attempts: s.failures, Refused: refused}}}
	}
	var delay time.Duration
	delay, s.seed = c.backOff(s.failures-1, s.seed)
	if delay <= lived {
		return s.startNext()
	}
	s.retryAt = now.Add(delay - lived)
	return s, nil
}

// budget is how many failures in a row are retried. A refusal of its own configuration at first start will not mend
// itself, so it is worth one more try only.
func (c Settings) budget(refused bool) int {
	if refused {
		return min(1, c.RestartBudget)
	}
	return c.RestartBudget
}

// backOff returns the delay before retry number attempt, from 0, and the next seed.
func (c Settings) backOff(attempt int, seed uint64) (time.Duration, uint64) {
	delay := backOffCap
	if shifted := c.BackOffBase << min(attempt, 30); shifted > 0 && shifted < backOffCap {
		delay = shifted
	}
	// The multiplier and increment are those of Knuth's MMIX generator: enough to spread a fleet.
	seed = seed*6364136223846793005 + 1442695040888963407
	share := 1 - jitter + 2*jitter*float64(seed>>11)/(1<<53)
	return min(time.Duration(float64(delay)*share), backOffCap), seed
}

// due does what its time has come for.
func (s state) due(now time.Time) (state, []any) {
	if !s.killAt.IsZero() && !now.Before(s.killAt) {
		s.killAt = time.Time{}
		return s, s.signalAll(syscall.SIGKILL)
	}
	if !s.retryAt.IsZero() && !now.Before(s.retryAt) {
		return s.startNext()
	}
	return s, nil
}

func (c Settings) terminate(s state, now time.Time) (state, []any) {
	if s.terminating {
		return s, nil
	}
	s.terminating, s.retryAt = true, time.Time{}
	if len(s.epochs) == 0 {
		return s, []any{finish{}}
	}
	s.killAt = now.Add(c.TerminationDrain)
	return s, s.signalAll(syscall.SIGTERM)
}

func (s state) signalAll(sig syscall.Signal) []any {
	var actions []any
	for _, e := range s.epochs {
		actions = append(actions, signal{e.number, sig})
	}
	return actions
}
