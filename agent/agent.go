package agent

import (
	"context"
	"log/slog"
	"syscall"
	"time"
)

// Agent keeps Envoy alive.
type Agent struct {
	Settings Settings
	Proxy    Proxy
	Log      *slog.Logger
	Seed     uint64 // of the back-off's jitter; any number
}

// Run launches Envoy, keeps it alive until ctx ends, then stops it. It returns once every process is reaped: nil
// when it was asked to stop, else a *GaveUp.
func (a *Agent) Run(ctx context.Context) error {
	l := &loop{
		Agent:    a,
		state:    state{seed: a.Seed},
		statusCh: make(chan any),
		abortCh:  map[int]chan syscall.Signal{},
		timer:    time.NewTimer(0),
	}
	defer l.timer.Stop()
	return l.run(ctx)
}

// loop is the one goroutine that owns the state.
type loop struct {
	*Agent
	state    state
	statusCh chan any                    // live and exited, from the epochs
	abortCh  map[int]chan syscall.Signal // one for each living epoch
	timer    *time.Timer                 // fires at state.wake
	done     *finish                     // set by the last action
}

func (l *loop) run(ctx context.Context) error {
	l.step(begin{})
	asked := ctx.Done()
	for l.done == nil || len(l.abortCh) > 0 {
		select {
		case event := <-l.statusCh:
			l.step(event)
		case <-l.timer.C:
			l.step(tick{})
		case <-asked:
			asked = nil
			l.step(terminate{})
		}
	}
	if l.done.gaveUp != nil {
		return l.done.gaveUp
	}
	return nil
}

// step takes one event through the core and does what the core says.
func (l *loop) step(event any) {
	if e, ok := event.(exited); ok {
		delete(l.abortCh, e.epoch)
	}
	now := time.Now()
	var actions []any
	l.state, actions = l.Settings.next(l.state, event, now)
	l.report(event, now)
	for _, action := range actions {
		l.do(action)
	}
	// A stopped timer's channel is empty (Go 1.23), so no stale tick can follow.
	if wake := l.state.wake(); wake.IsZero() {
		l.timer.Stop()
	} else {
		l.timer.Reset(wake.Sub(now))
	}
}

func (l *loop) do(action any) {
	switch a := action.(type) {
	case start:
		l.start(a.epoch)
	case signal:
		l.Log.Info("signal Envoy", "epoch", a.epoch, "signal", a.signal.String())
		select {
		case l.abortCh[a.epoch] <- a.signal:
		default: // an epoch that takes no signals has had TERM and KILL already
		}
	case finish:
		l.done = &a
	}
}

func (l *loop) start(epoch int) {
	abortCh := make(chan syscall.Signal, 4)
	l.abortCh[epoch] = abortCh
	go func() {
		exit := l.Proxy.Run(epoch, abortCh, func() { l.statusCh <- live{epoch} })
		l.statusCh <- exited{epoch, exit}
	}()
}

func (l *loop) report(event any, now time.Time) {
	switch e := event.(type) {
	case live:
		l.Log.Info("Envoy is live", "epoch", e.epoch)
	case exited:
		switch s := l.state; {
		case s.terminating:
			l.Log.Info("Envoy stopped", "epoch", e.epoch, "exit", e.exit.String())
		case !s.retryAt.IsZero():
			l.Log.Warn("Envoy ended unasked, will restart", "epoch", e.epoch, "exit", e.exit.String(),
				"failures", s.failures, "delay", s.retryAt.Sub(now))
		default:
			l.Log.Warn("Envoy ended unasked", "epoch", e.epoch, "exit", e.exit.String(), "failures", s.failures)
		}
	case terminate:
		l.Log.Info("stopping")
	}
}
