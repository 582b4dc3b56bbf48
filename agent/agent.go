package agent

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// Agent keeps Envoy alive, and its configuration up to date.
type Agent struct {
	Settings Settings
	Proxy    Proxy
	ConfigCh <-chan Config   // the desired configuration; the first one starts Envoy
	HurryCh  <-chan struct{} // after ctx has ended: the first receive ends the drain, the next one kills
	QuitCh   <-chan struct{} // nil for none: a receive stops Envoy without a drain
	AskCh    <-chan Ask      // nil for none
	Log      *slog.Logger
	// Observe is called after each step with the status and the events that the step added to the history, oldest first.
	// The loop calls it, so it must not block.
	Observe func(Status, []Event)
	Seed    uint64 // of the back-off's jitter; any number
	// Carried is the state to go on with, of a supervisor that has left; nil for a start.
	Carried *Carried
}

// Ask is a command, and a channel that the loop closes once it has carried the command out, Drain once Envoy drains. Observe has
// been called with the result by then.
type Ask struct {
	Command Command
	Taken   chan<- struct{}
}

// Tell sends a command to the loop that receives from askCh, and returns once the loop has carried it out. The loop only
// decides and never waits, so one that does not answer within a moment is stuck; Drain takes as long as an answer of Envoy.
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
// when it was asked to stop, else a *GaveUp. After the command Leave it returns a *Left, and the processes live on.
func (a *Agent) Run(ctx context.Context) error {
	// The goroutines of the loop outlive ctx: the end of ctx only begins the shutdown.
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
	if a.Carried != nil {
		l.takeOver(*a.Carried)
	}
	return l.run(ctx)
}

// loop is the one goroutine that owns the state.
type loop struct {
	*Agent
	state    state
	history  history
	statusCh chan event         // events of the epochs and of the tasks
	abortCh  map[int]chan Order // one for each living epoch
	timer    *time.Timer        // fires at state.wake
	end      *finish            // set by the last action
	left     bool               // likewise
	drains   []chan<- struct{}  // closed once each Envoy drains
	overtake func()             // cancels the last check; nil before the first

	tasks   context.Context // of the tasks beside the loop; ends with the loop
	running sync.WaitGroup
}

func (l *loop) run(ctx context.Context) error {
	asked := ctx.Done()
	for l.end == nil && !l.left {
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
		case <-l.QuitCh:
			l.dump()
			l.step(quit{})
		case ask := <-l.AskCh:
			if ask.Command != Nothing {
				l.step(commanded{ask.Command})
			}
			if ask.Command == Drain {
				l.drains = append(l.drains, ask.Taken)
			} else {
				close(ask.Taken)
			}
		}
		if !l.state.awaitsDrain() {
			l.answer()
		}
	}
	defer l.answer()
	if l.left {
		return &Left{l.leave()}
	}
	if l.end.gaveUp != nil {
		return l.end.gaveUp
	}
	return nil
}

// answer closes what callers wait for.
func (l *loop) answer() {
	for _, taken := range l.drains {
		close(taken)
	}
	l.drains = nil
}

// longestDump bounds the log line with the stacks of all goroutines, in bytes: the agent has about 40 goroutines.
const longestDump = 128 << 10

// dump logs the stacks of all goroutines, as the default action of SIGQUIT does, for a person who debugs the agent.
func (l *loop) dump() {
	if l.Log.Enabled(l.tasks, slog.LevelDebug) {
		text := make([]byte, longestDump)
		l.Log.Debug("SIGQUIT received", "goroutines", string(text[:runtime.Stack(text, true)]))
	}
}

// step passes one event to the core and performs the actions that the core returns.
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
		l.Log.Debug("Envoy is signalled", "epoch", a.epoch, "signal", a.signal.String())
		l.order(a.epoch, Order{Signal: a.signal})
	case drain:
		l.order(a.epoch, Order{Drain: true})
	case drainInbound:
		l.order(a.epoch, Order{DrainInbound: true, UntilIdle: a.untilIdle})
	case open:
		l.order(a.epoch, Order{Open: true})
	case await:
		l.order(a.epoch, Order{Await: true})
	case check:
		l.check(a.config)
	case repair:
		if err := l.Proxy.Repair(a.launch); err != nil {
			l.Log.Warn("shared memory not repaired after a newcomer that failed", "epoch", a.launch.Epoch, "err", err)
		}
	case rescue:
		l.aside(func(ctx context.Context) {
			if err := l.Proxy.Rescue(ctx, a.launch, a.until); err != nil {
				l.Log.Warn("no stand-in for a parent that died", "epoch", a.launch.Epoch, "err", err)
			}
		})
	case finish:
		l.end = &a
	case leave:
		l.left = true
	}
}

// check starts the check of a configuration, and cancels the previous check if it still runs.
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

// order sends an order to an epoch. An epoch that does not receive it is exiting already.
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
			case Fit:
				l.statusCh <- fit{launch.Epoch}
			case Incomplete:
				l.statusCh <- incomplete{launch.Epoch}
			case News:
				l.statusCh <- news{launch.Epoch}
			case Draining:
				l.statusCh <- draining{launch.Epoch}
			case Idle:
				l.statusCh <- idle{launch.Epoch}
			case Hung:
				l.statusCh <- hung{launch.Epoch}
			}
		})
		l.statusCh <- exited{launch.Epoch, exit}
	})
}

// aside runs a task that takes time in its own goroutine, beside the loop.
func (l *loop) aside(task func(ctx context.Context)) {
	l.running.Go(func() { task(l.tasks) })
}

// send sends the loop an event, unless ctx ends first.
func (l *loop) send(ctx context.Context, happened event) {
	select {
	case l.statusCh <- happened:
	case <-ctx.Done():
	}
}

// takeOver goes on with the state of a supervisor that has left.
func (l *loop) takeOver(c Carried) {
	now := time.Now()
	l.state, l.history = c.state(now), c.history()
	for _, launch := range c.Living() {
		l.start(launch)
	}
	l.history.add(noted{Upgraded, -1, ""}, now, l.Log)
	for _, e := range c.Exits {
		l.step(exited{e.Epoch, e.Exit})
	}
	if c.Asked != Nothing {
		l.step(commanded{c.Asked})
	}
	l.step(tick{})
}

// Attend takes commands in place of the supervisor that has left, until ctx ends. The next image carries them out: what it does at its
// start anyway needs no carrying, and of Drain and Resume the last one counts.
func (l *Left) Attend(ctx context.Context, askCh <-chan Ask) {
	for {
		select {
		case <-ctx.Done():
			return
		case ask := <-askCh:
			if ask.Command == Drain || ask.Command == Resume {
				l.Carried.Asked = ask.Command
			}
			close(ask.Taken)
		}
	}
}

// leave has every epoch left as it is, and returns the state for the next image. An exit meanwhile is part of it.
func (l *loop) leave() Carried {
	if l.overtake != nil {
		l.overtake()
	}
	c := l.state.carry(&l.history)
	for epoch := range l.abortCh {
		l.order(epoch, Order{Leave: true})
	}
	for len(l.abortCh) > 0 {
		if e, ok := (<-l.statusCh).(exited); ok {
			delete(l.abortCh, e.epoch)
			if !e.exit.Left {
				c.Exits = append(c.Exits, CarriedExit{e.epoch, e.exit})
			}
		}
	}
	return c
}
