package envoy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/lossy"
)

// process is one process of Envoy, from its fork to its end.
type process struct {
	*Proxy
	launch  agent.Launch
	sockets sockets  // of its family; zero without hot restart
	parent  *process // serves while this one starts; nil for none
	files   files
	output  *output
	stdout  *lossy.Lines

	stirred chan struct{} // it may have been stopped

	cmd        *exec.Cmd
	tie        *tie
	executable *executable // what was started, until it has proven to serve
	pid        int         // zero before the fork
	admin      *Admin

	live      atomic.Bool
	drained   atomic.Bool           // by the agent's own order
	succeeded atomic.Bool           // a newcomer of its family has been started, which closes its admin
	listeners atomic.Int64          // active when last asked
	listened  atomic.Pointer[ports] // on which it listened when a newcomer was started; nil before

	kernel     flight.Process     // last seen; the watch's until it has ended
	received   Received           // likewise
	mendedAt   map[string]int64   // see open
	formers    map[string]formers // by type; see mended
	missing    string             // see health.Config.Missing
	diagnosed  time.Time          // when it was last looked why Envoy cannot talk to discovery
	diagnosis  atomic.Pointer[string]
	diagnosing sync.WaitGroup

	linked time.Time // when it was last asked for its link to discovery

	healthMu sync.Mutex
	health   health.State
}

// outputDelay bounds the wait for output after Envoy's end, for a descendant of it may hold the pipe.
const outputDelay = time.Second

func (c *process) fork() (err error) {
	if c.tie, err = newTie(); err != nil {
		return errors.Join(err, c.Slot.NotStarted(c.sockets.family))
	}
	c.cmd = exec.Command(c.choose(c), argv(c.Options, c.files, c.sockets, c.launch.Restart)...)
	// Pipes of the agent's own, which are always read: so Envoy never waits for a reader, and can open /dev/stdout, which it could
	// not if the agent's own stdout, a socket perhaps, were passed on.
	c.cmd.Env, c.cmd.Stderr = c.Env, c.output
	if c.Stdout != nil {
		c.stdout = &lossy.Lines{To: c.Stdout}
		c.cmd.Stdout = c.stdout
	}
	c.cmd.WaitDelay = outputDelay
	c.cmd.Args[0] = c.Binary
	c.cmd.ExtraFiles = []*os.File{c.tie.read}
	if c.files.memory != nil {
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, c.files.memory)
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,            // a signal to the agent's group must not end Envoy before it has drained
		Pdeathsig: syscall.SIGKILL, // until it is tied
	}
	var started, tied, recorded error
	c.Fork(func() {
		if started = c.cmd.Start(); started == nil {
			tied = c.tie.to(c.cmd.Process.Pid)
			recorded = c.Slot.Started(c.cmd.Process.Pid, c.sockets.family) // at once: see Slot.Starting
		}
	})
	if started != nil {
		c.tie.cut()
		c.drop()
		return errors.Join(fmt.Errorf("start %s: %w", c.Binary, started), c.Slot.NotStarted(c.sockets.family))
	}
	c.known(c.cmd.Process.Pid)
	c.Log.Info("Envoy started", "epoch", c.launch.Epoch, "pid", c.pid, "base_id", uint32(c.sockets.family))
	if tied != nil { // its parent-death signal is left, and the slot's next owner
		c.Log.Warn("tie Envoy to the agent", "pid", c.pid, "err", tied)
	}
	if recorded != nil {
		c.Log.Warn("record Envoy for a next agent", "pid", c.pid, "err", recorded)
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
		c.tie.cut()
		c.drop()
		if c.stdout != nil {
			c.stdout.Close()
		}
		close(reaped)
	}()
	for {
		select {
		case order := <-abortCh:
			if order.Signal != 0 {
				c.cmd.Process.Signal(order.Signal) // a process that has just ended needs none
				continue
			}
			if order.DrainInbound && !order.UntilIdle {
				tasks.Go(func() { c.drainInbound(ctx) })
				continue
			}
			if order.Await {
				tasks.Go(func() { c.awaitNoConnection(ctx, report) })
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
	if exit.Signal != syscall.SIGKILL && exit.Signal != syscall.SIGTERM { // sent by another process: Envoy gives no reason
		exit.Reason = c.output.reason()
	}
	return exit
}

// calm is how long nothing may begin before a process that accepts counts as idle: clients with kept connections
// have most often asked within it, and been told to close.
const calm = 20 * time.Millisecond

// empty drains the process, or its inbound side, and reports when it is idle. One whose admin a newcomer has closed is drained by
// Envoy's own protocol, and judged by its sockets.
func (c *process) empty(ctx context.Context, order agent.Order, report func(agent.Report)) {
	how := inbound
	if order.Drain {
		how = Drain{}
		c.drained.Store(true)
	}
	if err := c.admin.DrainListeners(ctx, how); err != nil {
		c.drainByProtocol(err)
		c.awaitNoConnection(ctx, report)
		return
	}
	before := Work{Begun: -1}
	for ctx.Err() == nil {
		now, err := c.admin.Work(ctx)
		if err == nil && now.idle(before, order.DrainInbound) {
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

// inbound goes on accepting, so that clients that do not know of the drain yet are served; outbound stays until the end.
var inbound = Drain{InboundOnly: true, Graceful: true, SkipExit: true}

// drainInbound tells inbound connections to close, each with its next answer. An Envoy that cannot be asked goes on as it is:
// readiness alone then keeps new work away.
func (c *process) drainInbound(ctx context.Context) {
	if err := c.admin.DrainListeners(ctx, inbound); err != nil && ctx.Err() == nil {
		c.Log.Warn("drain inbound listeners", "epoch", c.launch.Epoch, "err", err)
	}
}

// idle reports whether a process may be ended. One that accepts no more has its last connections told to close by
// their next answer, so it waits for them; one that accepts may always get another.
func (w Work) idle(before Work, accepts bool) bool {
	return w.Connections == 0 || accepts && w.InFlight == 0 && w.Begun == before.Begun
}

func (c *process) drainByProtocol(cause error) {
	if c.sockets.family == 0 {
		c.Log.Warn("drain listeners", "epoch", c.launch.Epoch, "err", cause)
		return
	}
	if err := c.sockets.DrainListeners(c.launch.Restart); err != nil {
		c.Log.Warn("drain listeners", "epoch", c.launch.Epoch, "err", errors.Join(cause, err))
	}
}
