package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fakeProxy runs epochs by a script, in virtual time.
type fakeProxy struct {
	script   func(run int, l Launch) life
	check    func(Config) (bool, error)
	began    time.Time
	starts   []time.Duration // since began
	ran      []Launch
	repaired []Launch
	rescued  []Launch
}

// life is the behaviour of one run of an epoch, unless a signal ends it.
type life struct {
	liveAfter  time.Duration // zero: never
	idleAfter  time.Duration // after the order to drain; zero: never
	hungAfter  time.Duration // zero: never
	drainAfter time.Duration // after the order to let inbound connections end
	endAfter   time.Duration // zero: only by signal
	exit       Exit
	ignore     syscall.Signal // signal that it does not heed
}

func (p *fakeProxy) Run(launch Launch, abortCh <-chan Order, report func(Report)) Exit {
	p.starts = append(p.starts, time.Since(p.began))
	p.ran = append(p.ran, launch)
	l := p.script(len(p.starts)-1, launch)
	liveCh, endCh, hungCh := after(l.liveAfter), after(l.endAfter), after(l.hungAfter)
	var idleCh, drainCh <-chan time.Time
	for {
		select {
		case <-liveCh:
			report(Live)
		case <-idleCh:
			report(Idle)
		case <-drainCh:
			report(Draining)
		case <-hungCh:
			report(Hung)
		case <-endCh:
			return l.exit
		case order := <-abortCh:
			switch {
			case order.Leave:
				return Exit{Left: true}
			case order.Drain || order.UntilIdle || order.Await:
				idleCh = after(l.idleAfter)
			case order.DrainInbound:
				drainCh = time.After(l.drainAfter)
			case order.Signal != l.ignore:
				return Exit{Code: -1, Signal: order.Signal}
			}
		}
	}
}

func (p *fakeProxy) Check(_ context.Context, config Config) (bool, error) {
	if p.check == nil {
		return true, nil
	}
	return p.check(config)
}

func (p *fakeProxy) Repair(l Launch) error { p.repaired = append(p.repaired, l); return nil }

func (p *fakeProxy) Rescue(_ context.Context, l Launch, _ time.Time) error {
	p.rescued = append(p.rescued, l)
	return nil
}

func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// supervise runs an agent over p until it ends, or for the time of limit, and returns what Run returned. Each of the
// configurations is sent ten minutes after the one before.
func supervise(p *fakeProxy, limit time.Duration, configs ...Config) (Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p.began = time.Now()
	configCh := make(chan Config)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, config := range configs {
			select {
			case <-time.After(time.Duration(min(i, 1)) * 10 * time.Minute):
				configCh <- config
			case <-ctx.Done():
			}
		}
	}()
	var last Status
	agent := &Agent{
		Settings: Settings{
			HandoverWay: Auto, HandoverTimeout: 30 * time.Second, ParentShutdown: time.Minute, TerminationDrain: 5 * time.Second,
			RestartBudget: 10, BackOffBase: 200 * time.Millisecond,
		},
		Proxy: p, ConfigCh: configCh, Log: slog.New(slog.DiscardHandler), Observe: func(s Status, _ []Event) { last = s },
	}
	err := agent.Run(ctx)
	cancel()
	<-done
	return last, err
}

func TestRunClimbsTheLadderAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{script: func(int, Launch) life { return life{endAfter: time.Millisecond, exit: Exit{Code: 139}} }}
		var gaveUp *GaveUp
		if _, err := supervise(p, time.Hour, a); !errors.As(err, &gaveUp) {
			t.Fatalf("Run: got %v, want *GaveUp", err)
		}
		if len(p.starts) != 11 || gaveUp.Attempts != 11 {
			t.Fatalf("%d starts, %d attempts; want the first and ten retries", len(p.starts), gaveUp.Attempts)
		}
		if took := p.starts[10]; took < time.Minute || took > 3*time.Minute {
			t.Errorf("the ladder took %s, want between 1 and 3 minutes", took)
		}
	})
}

func TestRunReplacesAtOnceAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{script: func(int, Launch) life {
			return life{liveAfter: 100 * time.Millisecond, idleAfter: 1, endAfter: 10 * time.Minute, exit: Exit{Code: -1, Signal: syscall.SIGKILL}}
		}}
		if _, err := supervise(p, 30*time.Hour-time.Minute, a); err != nil {
			t.Fatalf("Run: %v, want nil after a stop that was asked for", err)
		}
		if len(p.starts) != 180 {
			t.Errorf("%d starts in just under 30 hours of 10 minutes each, want 180", len(p.starts))
		}
	})
}

func TestRunHandsOverAndRollsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{}
		p.script = func(_ int, l Launch) life {
			switch {
			case l.Config == b && l.Hot():
				return life{hungAfter: time.Second} // killed, twice
			case l.Config == a:
				return life{liveAfter: time.Second, idleAfter: time.Second}
			}
			return life{liveAfter: time.Second, idleAfter: 1}
		}
		p.check = func(config Config) (bool, error) {
			if config == c {
				return false, errors.New("expired")
			}
			return true, nil
		}
		status, err := supervise(p, time.Hour, a, b, c)
		if err != nil {
			t.Fatalf("Run: %v, want nil", err)
		}
		want := []Launch{first(a), launch(1, 0, 1, b), launch(1, 0, 1, b), launch(1, 1, 0, b)}
		if !slices.Equal(p.ran, want) {
			t.Errorf("ran %v, want %v", p.ran, want)
		}
		if !slices.Equal(p.repaired, want[1:3]) {
			t.Errorf("repaired %v, want %v", p.repaired, want[1:3])
		}
		counts := map[Note]int{HandedOver: 1, RolledBack: 2, Hanging: 2, Rejected: 1, Serving: 2}
		for note, n := range counts {
			if status.Counts[note] != n {
				t.Errorf("%q was noted %d times, want %d", note, status.Counts[note], n)
			}
		}
		if status.Refusal == nil || status.Refusal.Reason != "expired" {
			t.Errorf("refusal %+v, want the reason of the check", status.Refusal)
		}
	})
}

func TestRunStandsInForADeadParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{script: func(_ int, l Launch) life {
			if l.Config == a {
				return life{liveAfter: time.Second, endAfter: 10*time.Minute + 10*time.Second, exit: crash}
			}
			return life{liveAfter: time.Second, idleAfter: 1}
		}}
		if _, err := supervise(p, time.Hour, a, b); err != nil {
			t.Fatalf("Run: %v, want nil", err)
		}
		if want := []Launch{first(a)}; !slices.Equal(p.rescued, want) {
			t.Errorf("stood in for %v, want %v", p.rescued, want)
		}
	})
}

func TestRunKillsWhatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{script: func(int, Launch) life { return life{liveAfter: time.Second, ignore: syscall.SIGTERM} }}
		if _, err := supervise(p, time.Minute, a); err != nil {
			t.Fatalf("Run: %v, want nil", err)
		}
		if took, want := time.Since(p.began), time.Minute+5*time.Second+killGrace; took != want {
			t.Errorf("stopped after %s, want the drain and then the grace: %s", took, want)
		}
	})
}

// A parent that has become idle is terminated, and its exit is no failure that needs a rescue and a warning.
func TestRunLetsAnIdleParentLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{script: func(int, Launch) life { return life{liveAfter: time.Second, idleAfter: time.Second} }}
		status, err := supervise(p, 10*time.Minute+10*time.Second, a, b)
		if err != nil {
			t.Fatalf("Run: %v, want nil", err)
		}
		if status.Counts[Replaced] != 1 || status.Counts[Late] != 0 || status.Counts[Rescuing] != 0 {
			t.Errorf("%+v, want the parent gone", status.Counts)
		}
		if want := []Launch{first(a)}; !slices.Equal(p.rescued, want) {
			t.Errorf("stood in for %v, want %v: its newcomer will tell it to leave", p.rescued, want)
		}
	})
}

// Observe receives each event once, in order, together with the status that has it.
func TestRunHandsOverEachEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handed []Event
		configCh := make(chan Config, 1)
		configCh <- a
		agent := &Agent{
			Settings: settings, ConfigCh: configCh, Log: slog.New(slog.DiscardHandler),
			Proxy: &fakeProxy{script: func(int, Launch) life { return life{liveAfter: time.Second, endAfter: 6 * time.Minute} }, began: time.Now()},
			Observe: func(s Status, news []Event) {
				handed = append(handed, news...)
				if kept := handed[max(0, len(handed)-keptEvents):]; !slices.Equal(kept, s.Events) {
					t.Fatalf("the last of %d events that were handed over are\n%v, the status has\n%v", len(handed), kept, s.Events)
				}
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		var gaveUp *GaveUp
		if err := agent.Run(ctx); err != nil && !errors.As(err, &gaveUp) {
			t.Fatal(err)
		}
		if len(handed) <= keptEvents {
			t.Errorf("%d events were handed over, want more than the %d that a status keeps", len(handed), keptEvents)
		}
	})
}

// A check that takes long is canceled when the next one begins, and its result is ignored.
func TestRunGivesUpAnOvertakenCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowChecker{fakeProxy: fakeProxy{script: func(int, Launch) life { return life{liveAfter: time.Second, idleAfter: 1} }}}
		p.began = time.Now()
		configCh := make(chan Config)
		ctx, cancel := context.WithCancel(t.Context())
		var last Status
		agent := &Agent{
			Settings: settings, Proxy: p, ConfigCh: configCh, Log: slog.New(slog.DiscardHandler), Observe: func(s Status, _ []Event) { last = s },
		}
		done := make(chan error)
		go func() { done <- agent.Run(ctx) }()
		configCh <- a
		<-time.After(time.Minute)
		configCh <- b
		<-time.After(time.Second) // its check is under way
		configCh <- c
		<-time.After(time.Second) // and that of c
		configCh <- b
		<-time.After(5 * time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if p.overtaken.Load() != 2 || last.Refusal != nil || last.Counts[Rejected] != 0 {
			t.Errorf("%d checks were given up, refused: %+v; want two and nothing", p.overtaken.Load(), last.Refusal)
		}
		if ran := p.ran[len(p.ran)-1]; ran.Config != b {
			t.Errorf("%+v runs, want what was asked for last", ran)
		}
	})
}

// slowChecker takes ten seconds for a check, unless the check is canceled.
type slowChecker struct {
	fakeProxy
	overtaken atomic.Int64
}

func (p *slowChecker) Check(ctx context.Context, _ Config) (bool, error) {
	select {
	case <-time.After(10 * time.Second):
		return true, nil
	case <-ctx.Done():
		p.overtaken.Add(1)
		return false, ctx.Err()
	}
}
