package envoy

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/health"
)

// process is one process of Envoy, from its fork to its end.
type process struct {
	*Proxy
	launch agent.Launch
	family Family   // zero without hot restart
	parent *process // who serves while this one starts; nil for none
	files  files
	output *output

	cmd   *exec.Cmd
	pid   int // zero before the fork
	admin *Admin

	live      atomic.Bool
	listeners atomic.Int64 // active when last asked

	kernel   flight.Process // last seen; the watch's until it has ended
	received Received       // likewise
	linked   time.Time      // when it was last asked for its link to discovery

	healthMu sync.Mutex
	health   health.State
}

// outputDelay bounds the wait for output after Envoy's end, for a descendant of it may hold the pipe.
const outputDelay = time.Second

func (c *process) fork() error {
	c.cmd = exec.Command(c.Binary, argv(c.Options, c.files, c.family, c.launch.Restart)...)
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = c.Env, c.Stdout, c.output
	c.cmd.WaitDelay = outputDelay
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, // a signal to the agent's group must not end Envoy before it has drained
		// With hot restart Envoy sets its own to TERM, which a frozen one does not hear: the slot's next owner ends it.
		Pdeathsig: syscall.SIGKILL,
	}
	var started, recorded error
	c.Fork(func() {
		if started = c.cmd.Start(); started == nil {
			recorded = c.Slot.Started(c.cmd.Process.Pid, c.family) // at once: see Slot.Starting
		}
	})
	if started != nil {
		return errors.Join(fmt.Errorf("start %s: %w", c.Binary, started), c.Slot.NotStarted(c.family))
	}
	c.known(c.cmd.Process.Pid)
	c.Log.Info("Envoy started", "epoch", c.launch.Epoch, "pid", c.pid, "base_id", uint32(c.family))
	if recorded != nil {
		c.Log.Warn("record Envoy for a next agent", "pid", c.pid, "error", recorded)
	}
	return nil
}

// run obeys orders and reports until the process is reaped.
func (c *process) run(abortCh <-chan agent.Order, report func(agent.Report)) agent.Exit {
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() { c.watch(ctx, report) })
	reaped := make(chan struct{})
	go func() {
		c.cmd.Wait() // the status is read from ProcessState
		close(reaped)
	}()
	for {
		select {
		case order := <-abortCh:
			if order.Signal != 0 {
				c.cmd.Process.Signal(order.Signal) // a process that has just ended needs none
				continue
			}
			if order.Fade {
				tasks.Go(func() { c.fade(ctx) })
				continue
			}
			tasks.Go(func() { c.empty(ctx, order, report) })
		case <-reaped:
			cancel()
			tasks.Wait()
			return c.exit()
		}
	}
}

func (c *process) exit() agent.Exit {
	exit := agent.Exit{Code: c.cmd.ProcessState.ExitCode()}
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	if exit.Signal != syscall.SIGKILL && exit.Signal != syscall.SIGTERM { // somebody else's will: Envoy had no reason
		exit.Reason = c.output.reason()
	}
	return exit
}

// calm is how long nothing may begin before a process that accepts counts as idle: clients with kept connections
// have most often asked within it, and been told to close.
const calm = 20 * time.Millisecond

// empty drains or lulls the process, and reports when it is idle. One whose admin a newcomer has closed is drained by
// Envoy's own protocol; it cannot be asked, so it is never idle.
func (c *process) empty(ctx context.Context, order agent.Order, report func(agent.Report)) {
	how := fading
	if order.Drain {
		how = Drain{}
	}
	if err := c.admin.DrainListeners(ctx, how); err != nil {
		c.drainByProtocol(err)
		return
	}
	before := Work{Begun: -1}
	for ctx.Err() == nil {
		now, err := c.admin.Work(ctx)
		if err == nil && now.idle(before, order.Lull) {
			report(agent.Idle)
			return
		}
		before = now
		select {
		case <-ctx.Done():
		case <-time.After(calm):
		}
	}
}

// fading accepts on, so that whoever has not heard yet is served; outbound stays until the end.
var fading = Drain{InboundOnly: true, Graceful: true, SkipExit: true}

// fade tells inbound connections to close, each with its next answer. An Envoy that cannot be asked goes on as it is:
// what matters, that it gets no new work, is readiness's.
func (c *process) fade(ctx context.Context) {
	if err := c.admin.DrainListeners(ctx, fading); err != nil && ctx.Err() == nil {
		c.Log.Warn("drain inbound listeners", "epoch", c.launch.Epoch, "error", err)
	}
}

// idle reports whether a process may be ended. One that accepts no more has its last connections told to close by
// their next answer, so it waits for them; one that accepts may always get another.
func (w Work) idle(before Work, accepts bool) bool {
	return w.Connections == 0 || accepts && w.InFlight == 0 && w.Begun == before.Begun
}

func (c *process) drainByProtocol(cause error) {
	if c.family == 0 {
		c.Log.Warn("drain listeners", "epoch", c.launch.Epoch, "error", cause)
		return
	}
	if err := c.family.DrainListeners(c.launch.Restart); err != nil {
		c.Log.Warn("drain listeners", "epoch", c.launch.Epoch, "error", errors.Join(cause, err))
	}
}
