package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fakeProxy runs epochs that do as script says, in virtual time.
type fakeProxy struct {
	script func(run int) life
	starts []time.Duration // since began
	began  time.Time
}

// life is what one run of an epoch does, unless a signal ends it.
type life struct {
	liveAfter time.Duration // zero: never
	endAfter  time.Duration // zero: only by signal
	exit      Exit
	ignore    syscall.Signal // signal that it does not heed
}

func (p *fakeProxy) Run(_ int, abortCh <-chan syscall.Signal, live func()) Exit {
	p.starts = append(p.starts, time.Since(p.began))
	l := p.script(len(p.starts) - 1)
	liveCh, endCh := after(l.liveAfter), after(l.endAfter)
	for {
		select {
		case <-liveCh:
			live()
		case <-endCh:
			return l.exit
		case sig := <-abortCh:
			if sig != l.ignore {
				return Exit{Code: -1, Signal: sig}
			}
		}
	}
}

func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// supervise runs an agent over p until it ends, or for the time of limit, and returns what Run returned.
func supervise(p *fakeProxy, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p.began = time.Now()
	a := &Agent{
		Settings: Settings{RestartBudget: 10, BackOffBase: 200 * time.Millisecond, TerminationDrain: 5 * time.Second},
		Proxy:    p, Log: slog.New(slog.DiscardHandler),
	}
	return a.Run(ctx)
}

func TestRunClimbsTheLadderAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{script: func(int) life { return life{endAfter: time.Millisecond, exit: Exit{Code: 139}} }}
		var gaveUp *GaveUp
		if err := supervise(p, time.Hour); !errors.As(err, &gaveUp) {
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
		p := &fakeProxy{script: func(int) life {
			return life{liveAfter: 100 * time.Millisecond, endAfter: 10 * time.Minute, exit: Exit{Code: -1, Signal: syscall.SIGKILL}}
		}}
		if err := supervise(p, 30*time.Hour-time.Minute); err != nil {
			t.Fatalf("Run: %v, want nil after a stop that was asked for", err)
		}
		if len(p.starts) != 180 {
			t.Errorf("%d starts in just under 30 hours of 10 minutes each, want 180", len(p.starts))
		}
	})
}

func TestRunKillsWhatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{script: func(int) life { return life{liveAfter: time.Second, ignore: syscall.SIGTERM} }}
		if err := supervise(p, time.Minute); err != nil {
			t.Fatalf("Run: %v, want nil", err)
		}
		if took := time.Since(p.began); took != time.Minute+5*time.Second {
			t.Errorf("stopped after %s, want TERM after 1m and KILL 5s later", took)
		}
		if want := []time.Duration{0}; !slices.Equal(p.starts, want) {
			t.Errorf("started at %v, want %v", p.starts, want)
		}
	})
}
