package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// process is one process of Envoy, from its fork to its end.
type process struct {
	*Proxy
	launch  agent.Launch
	sockets hotrestart.Sockets // of its family; zero without hot restart
	parent  *process           // serves while this one starts; nil for none
	files   files
	gate    *gate // nil for none
	output  *output
	stdout  *lossy.Lines

	// requester is connected to the socket by which it gets answers of its parent, whatever becomes of the path; nil for none. Proxy.mu protects it.
	requester *net.UnixConn

	started time.Time
	stirred chan struct{} // it may have been stopped

	child      *os.Process
	ended      *os.ProcessState // nil before, and if the exit status is not known
	unseen     error            // why it is not
	stderr     *pipe
	pipes      []*os.File // of an adopted process, until Run: see plumb
	printed    *pipe      // Envoy's stdout; nil for none
	tie        *tie
	executable *executable // of this process, until the process has served
	pid        int         // zero before the fork
	admin      *Admin

	reaping sync.Mutex
	left    bool // with reaping: another image of the agent reaps it

	live      atomic.Bool
	drained   atomic.Bool                   // by the agent's own order
	replaced  atomic.Bool                   // a newcomer serves in its place
	succeeded atomic.Bool                   // a newcomer of its family has been started, which closes its admin
	listened  atomic.Pointer[procnet.Ports] // on which it listened when a newcomer was started; nil before

	kernel     flight.Process     // last read; owned by the watch until the watch has ended
	received   Received           // likewise
	news       bool               // received has changed with the last query
	lost       string             // see health.Config.Lost
	taken      []netip.AddrPort   // see Admin.unbound
	free       bool               // what was lost can be had again
	lossLooks  int                // see lookForLost
	mendedAt   map[string]int64   // see open
	formers    map[string]formers // by type; see mended
	missing    string             // see health.Config.Missing
	shared     string             // see health.Config.Shared
	looked     bool               // the listening sockets were due to be compared once
	looks      int                // see lookAtPorts
	diagnosed  time.Time          // when the connection to discovery was last diagnosed
	diagnosis  atomic.Pointer[string]
	diagnosing sync.WaitGroup

	linked time.Time // when its link to discovery was last queried

	healthMu sync.Mutex
	health   health.State
}

// outputDelay bounds the wait for output after Envoy's exit, since a descendant of Envoy may hold the pipe.
const outputDelay = time.Second

func (c *process) fork() (err error) {
	if c.tie, err = newTie(); err != nil {
		return errors.Join(err, c.Slot.NotStarted(c.sockets.BaseID))
	}
	cmd := exec.Command(c.choose(c), argv(c.Options, c.files, c.sockets, c.launch.Restart)...)
	cmd.Env = c.Env
	cmd.Args[0] = c.Binary
	cmd.ExtraFiles = []*os.File{c.tie.read}
	if c.files.memory != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.files.memory)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,            // a signal to the agent's group must not end Envoy before it has drained
		Pdeathsig: syscall.SIGKILL, // until it is tied
	}
	read, started := c.plumb(cmd)
	var tied, recorded error
	if started == nil {
		c.Fork(func() {
			if started = cmd.Start(); started == nil {
				tied = c.tie.to(cmd.Process.Pid)
				recorded = c.Slot.Started(cmd.Process.Pid, c.sockets.BaseID) // at once: see Slot.Starting
			}
		})
	}
	closeAll(cmd.Stdout, cmd.Stderr) // the child's ends
	if started != nil {
		for _, r := range read {
			r.Close()
		}
		c.tie.cut()
		c.drop()
		return errors.Join(fmt.Errorf("start %s: %w", c.Binary, started), c.Slot.NotStarted(c.sockets.BaseID))
	}
	c.child = cmd.Process
	c.listen(read)
	c.known(c.child.Pid)
	c.Log.Info("Envoy started", "epoch", c.launch.Epoch, "pid", c.pid, "base_id", uint32(c.sockets.BaseID))
	if tied != nil { // the parent-death signal remains, and the slot's next owner ends a leftover
		c.Log.Warn("Envoy not tied to the agent", "pid", c.pid, "err", tied)
	}
	if recorded != nil {
		c.Log.Warn("Envoy not recorded for a next agent", "pid", c.pid, "err", recorded)
	}
	return nil
}

// plumb makes pipes for the output of a child, and returns the agent's ends: of stderr, and of stdout if it is wanted. Envoy can
// open /dev/stdout if it is a pipe, which it could not do if it inherited a stdout of the agent that is a socket.
func (c *process) plumb(cmd *exec.Cmd) (read []*os.File, err error) {
	ends := []*io.Writer{&cmd.Stderr}
	if c.Stdout != nil {
		ends = append(ends, &cmd.Stdout)
	}
	for _, end := range ends {
		r, w, err := os.Pipe()
		if err != nil {
			return read, err
		}
		read, *end = append(read, r), w
	}
	return read, nil
}

// listen passes on what comes out of the pipes of plumb.
func (c *process) listen(read []*os.File) {
	c.stderr = pump(read[0], c.output)
	if len(read) > 1 {
		if c.stdout == nil {
			c.stdout = &lossy.Lines{To: c.Stdout}
		}
		c.printed = pump(read[1], c.stdout)
	}
}

func closeAll(writers ...io.Writer) {
	for _, w := range writers {
		if file, ok := w.(*os.File); ok {
			file.Close()
		}
	}
}

// reap waits for the end of the process, and for the rest of its output. If the process was left meanwhile, another image reaps it,
// and reap returns false.
func (c *process) reap() bool {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, c.child.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			break // Wait returns an error too
		}
	}
	c.reaping.Lock()
	defer c.reaping.Unlock()
	if c.left {
		return false
	}
	c.ended, c.unseen = c.child.Wait()
	c.stderr.end(outputDelay)
	c.printed.end(outputDelay)
	c.tie.cut()
	c.drop()
	if c.stdout != nil {
		c.stdout.Close()
	}
	return true
}

// leave leaves the process to another image of the agent. It returns false if the process has been reaped.
func (c *process) leave() bool {
	c.reaping.Lock()
	defer c.reaping.Unlock()
	if c.ended != nil || c.unseen != nil {
		return false
	}
	c.left = true
	c.stderr.stop(0)
	c.printed.stop(0)
	return true
}

// run carries out orders and reports until the process is reaped.
func (c *process) run(abortCh <-chan agent.Order, report func(agent.Report)) agent.Exit {
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() { c.watch(ctx, report) })
	reaped := make(chan struct{})
	go func() {
		if c.reap() {
			close(reaped)
		}
	}()
	for {
		select {
		case order := <-abortCh:
			if order.Signal != 0 {
				c.child.Signal(order.Signal) // a process that has just ended needs none
				continue
			}
			if order.Leave {
				if !c.leave() {
					continue // its exit comes
				}
				cancel()
				tasks.Wait()
				return agent.Exit{Left: true}
			}
			if order.Open {
				c.letThrough()
				continue
			}
			if order.Drain || order.Await {
				c.replaced.Store(true)
			}
			if order.DrainInbound && !order.UntilIdle {
				tasks.Go(func() { // Leave waits for it: nobody gives the order again
					c.drainInbound(context.WithoutCancel(ctx))
					report(agent.Draining)
				})
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
	if c.ended == nil {
		return agent.Exit{Code: -1, Unseen: true, Reason: c.unseen.Error()}
	}
	exit := agent.Exit{Code: c.ended.ExitCode()}
	if status, ok := c.ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	if exit.Signal != syscall.SIGKILL && exit.Signal != syscall.SIGTERM { // sent by another process: Envoy gives no reason
		exit.Reason = c.output.reason()
	}
	return exit
}

// calm is the time without a new request or connection after which an accepting process counts as idle. Most clients
// with kept connections have sent a request within it, and have received an answer that closes the connection.
const calm = 20 * time.Millisecond

// empty drains the process, or its inbound side, and reports when it is idle. A process whose admin a newcomer has
// closed is drained by Envoy's hot-restart protocol, and its sockets show when it is idle.
func (c *process) empty(ctx context.Context, order agent.Order, report func(agent.Report)) {
	how := c.inbound()
	if order.Drain {
		how = Drain{}
		c.drained.Store(true)
	}
	if err := c.admin.DrainListeners(ctx, how); err != nil {
		c.drainByProtocol(err)
		c.awaitNoConnection(ctx, report)
		return
	}
	if order.DrainInbound {
		select {
		case <-ctx.Done():
		case <-time.After(c.Options.MinimumDrain):
		}
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

// inbound goes on accepting, so that clients that have not learnt of the drain yet are served. A sidecar's outbound
// listeners stay until the exit.
func (c *process) inbound() Drain {
	return Drain{InboundOnly: !c.Options.Gateway, Graceful: true, SkipExit: true}
}

// drainInbound makes Envoy close each inbound connection with its next answer. If the request to Envoy fails, Envoy
// goes on as before, and readiness alone keeps new work away.
func (c *process) drainInbound(ctx context.Context) {
	if err := c.admin.DrainListeners(ctx, c.inbound()); err != nil {
		c.Log.Warn("inbound listeners not drained", "epoch", c.launch.Epoch, "err", err)
	}
}

// idle reports whether a process may be ended. A process that accepts no more closes its last connections with their
// next answer, so it may be ended when none is open. One that accepts may always get another connection, so it may be
// ended when nothing is in flight and nothing has begun.
func (w Work) idle(before Work, accepts bool) bool {
	return w.Connections == 0 || accepts && w.InFlight == 0 && w.Begun == before.Begun
}

func (c *process) drainByProtocol(cause error) {
	if c.sockets.BaseID == 0 {
		c.Log.Warn("listeners not drained", "epoch", c.launch.Epoch, "err", cause)
		return
	}
	if err := c.sockets.DrainListeners(c.launch.Restart); err != nil {
		c.Log.Warn("listeners not drained", "epoch", c.launch.Epoch, "err", errors.Join(cause, err))
	}
}
