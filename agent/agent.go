package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Agent keeps Envoy alive, and its configuration up to date.
type Agent struct {
	Settings Settings
	Proxy    Proxy
	ConfigCh <-chan Config   // what is desired; the first starts Envoy
	HurryCh  <-chan struct{} // once it shall stop: leave at once; the next time: kill
	AskCh    <-chan Ask      // nil for none
	Log      *slog.Logger
	// Observe is called with each change and the events that it added to the history, oldest first. It is called from the loop, so
	// it must not block.
	Observe func(Status, []Event)
	Seed    uint64 // of the back-off's jitter; any number
}

// Ask is a command, and a channel that is closed once it is taken: Observe has been called with it by then.
type Ask struct {
	Command Command
	Taken   chan<- struct{}
}

// Tell hands a command to the loop that takes askCh, and returns once it has taken it. The loop only decides and never
// waits: one that does not answer within a moment is stuck.
func Tell(ctx context.Context, askCh chan<- Ask, command Command) error {
	taken := make(chan struct{})
	select {
	case askCh <- Ask{Command: command, Taken: taken}:
	case <-ctx.Done():
		return fmt.Errorf("the supervisor's loop does not answer: %w", context.Cause(ctx))
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the supervisor's loop does not come to an end: %w", context.Cause(ctx))
	}
}

// Run launches Envoy, keeps it alive until ctx ends, then stops it. It returns once every process is reaped: nil
// when it was asked to stop, else a *GaveUp.
func (a *Agent) Run(ctx context.Context) error {
	// The goroutines of the loop outlive ctx: its end only begins the shutdown.
	tasks, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &loop{
		Agent:    a,
		state:    state{seed: a.Seed},
		statusCh: make(chan event),
		abortCh:  map[int]chan Order{},
		timer:    time.NewTimer(time.Hour),
		tasks:    tasks,
	}
	defer l.running.Wait()
	defer cancel()
	defer l.timer.Stop()
	return l.run(ctx)
}

// loop is the one goroutine that owns the state.
type loop struct {
	*Agent
	state    state
	history  history
	statusCh chan event         // events of the epochs, and of what is done on the side
	abortCh  map[int]chan Order // one for each living epoch
	timer    *time.Timer        // fires at state.wake
	end      *finish            // set by the last action
	overtake func()             // gives up the last check; nil before the first

	tasks   context.Context // of what is done on the side; ends with the loop
	running sync.WaitGroup
}

func (l *loop) run(ctx context.Context) error {
	asked := ctx.Done()
	for l.end == nil {
		select {
		case config := <-l.ConfigCh:
			l.step(configured{config})
		case happened := <-l.statusCh:
			l.step(happened)
		case <-l.timer.C:
			l.step(tick{})
		case <-asked:
			asked = nil
			l.step(terminate{})
		case <-l.HurryCh:
			l.step(terminate{})
		case ask := <-l.AskCh:
			if ask.Command != Nothing {
				l.step(commanded{ask.Command})
			}
			close(ask.Taken)
		}
	}
	if l.end.gaveUp != nil {
		return l.end.gaveUp
	}
	return nil
}

// step takes one event through the core and does what the core says.
func (l *loop) step(happened event) {
	if e, ok := happened.(exited); ok {
		delete(l.abortCh, e.epoch)
	}
	now := time.Now()
	var actions []action
	var events []Event
	l.state, actions = l.Settings.next(l.state, happened, now)
	for _, action := range actions {
		if n, ok := action.(noted); ok {
			events = append(events, l.history.add(n, now, l.Log))
			continue
		}
		l.do(action)
	}
	// A stopped timer's channel is empty (Go 1.23), so no stale tick can follow.
	if wake := l.state.wake(); wake.IsZero() {
		l.timer.Stop()
	} else {
		l.timer.Reset(wake.Sub(now))
	}
	if l.Observe != nil {
		l.Observe(l.state.status(&l.history, l.Settings), events)
	}
}

func (l *loop) do(todo action) {
	switch a := todo.(type) {
	case start:
		l.start(a.launch)
	case signal:
		l.Log.Debug("signal Envoy", "epoch", a.epoch, "signal", a.signal.String())
		l.order(a.epoch, Order{Signal: a.signal})
	case drain:
		l.order(a.epoch, Order{Drain: true})
	case drainInbound:
		l.order(a.epoch, Order{DrainInbound: true, UntilIdle: a.untilIdle})
	case await:
		l.order(a.epoch, Order{Await: true})
	case check:
		l.check(a.config)
	case repair:
		if err := l.Proxy.Repair(a.launch); err != nil {
			l.Log.Warn("repair after a newcomer that failed", "epoch", a.launch.Epoch, "err", err)
		}
	case rescue:
		l.aside(func(ctx context.Context) {
			if err := l.Proxy.Rescue(ctx, a.launch, a.until); err != nil {
				l.Log.Warn("stand in for a parent that died", "epoch", a.launch.Epoch, "err", err)
			}
		})
	case finish:
		l.end = &a
	}
}

// check has a configuration checked. One that is checked already is overtaken: its check is given up.
func (l *loop) check(config Config) {
	if l.overtake != nil {
		l.overtake()
	}
	ctx, cancel := context.WithCancel(l.tasks)
	l.overtake = cancel
	l.running.Go(func() {
		defer cancel()
		hot, err := l.Proxy.Check(ctx, config)
		if ctx.Err() != nil {
			return
		}
		result := checked{config: config, hot: hot}
		if err != nil {
			result.fault = err.Error()
		}
		l.send(ctx, result)
	})
}

// order hands an epoch an order. One that takes none is leaving already.
func (l *loop) order(epoch int, o Order) {
	select {
	case l.abortCh[epoch] <- o:
	default:
	}
}

func (l *loop) start(launch Launch) {
	abortCh := make(chan Order, 8)
	l.abortCh[launch.Epoch] = abortCh
	l.running.Go(func() {
		exit := l.Proxy.Run(launch, abortCh, func(r Report) {
			switch r {
			case Live:
				l.statusCh <- live{launch.Epoch}
			case Idle:
				l.statusCh <- idle{launch.Epoch}
			case Hung:
				l.statusCh <- hung{launch.Epoch}
			}
		})
		l.statusCh <- exited{launch.Epoch, exit}
	})
}

// aside does what takes time beside the loop.
func (l *loop) aside(task func(ctx context.Context)) {
	l.running.Go(func() { task(l.tasks) })
}

// send gives the loop an event, unless the loop has ended.
func (l *loop) send(ctx context.Context, happened event) {
	select {
	case l.statusCh <- happened:
	case <-ctx.Done():
	}
}
