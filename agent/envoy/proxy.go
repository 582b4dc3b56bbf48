package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// Proxy runs epochs of the Envoy at Binary. It implements agent.Proxy.
type Proxy struct {
	Binary     string
	Slot       *Slot
	HotRestart bool // use hot restart, if shared memory is available
	Options    Options
	Env        []string // Envoy's environment, "NAME=value"; nil for the agent's own
	Log        *slog.Logger
	Output     *slog.Logger // of Envoy's own lines; it must not block
	Stdout     io.Writer    // of Envoy's stdout, such as access logs, in whole lines; nil for none. It must not block

	Discovery  Discovery // the server that a bootstrap of the agent's own names
	Redirected bool      // traffic is redirected to listeners that discovery sends: see intercepting

	Redirection *Redirection // nil where inbound traffic is not said to be redirected
	Diverted    func()       // called when Bypassed has changed; nil for none

	// Relayed returns the link to discovery of an Envoy that started at a time; nil where no relay serves it. It may be nil.
	Relayed  func(started time.Time) *health.Relayed
	Gates    Gates         // hold newcomers; the zero Gates hold none
	Patience time.Duration // how long a trial of a configuration may take

	Records string // the socket for records of failed requests, for a bootstrap of the user's own that names their cluster; empty for none

	Unintercepted bool   // programs call Envoy's ports themselves: interception mode NONE
	Spare         *Spare // descriptors for use when the process has no other left; nil for none

	// CheckCertificates is called before each handover. Certificates is called with each probe, so it must be cheap: it
	// returns the fields of health.Observation for an Envoy that started at a time. Either may be nil.
	CheckCertificates func() error
	Certificates      func(started time.Time) (fault string, ends time.Time, none bool)
	// Judged is called when Health may have changed; nil for none.
	Judged func()
	// Fork runs its argument on a thread that lives as long as the agent: a parent-death signal comes when the
	// forking *thread* ends, and Go ends threads.
	Fork func(func())

	trying    sync.Mutex // held by a trial from its start to its end: all use the same files
	mu        sync.Mutex
	processes map[int]*process // by epoch
	trials    []*process
	shields   []shield
	rescues   map[*hotrestart.Rescue]int // that stand in for a parent, each with its family
	adopted   map[int]*process           // likewise, until Run has taken them over
	families  map[int]hotrestart.Sockets // by the core's number, while an epoch of it lives
	remains   []remains                  // of the last processes that ended, newest first
	addresses []netip.AddrPort           // at which the last Envoy listened of whose LDS nothing was refused
	good      *executable                // the last one that served; nil for none
	versions  map[string]string          // of hot restart, by the fingerprint of a binary that was asked
	bypass    bypass
}

// Run implements agent.Proxy.
func (p *Proxy) Run(launch agent.Launch, abortCh <-chan agent.Order, report func(agent.Report)) agent.Exit {
	c := p.takeAdopted(launch.Epoch)
	if c != nil {
		c.listen(c.pipes)
	} else if err := p.Spare.lend(func() (err error) {
		c, err = p.begin(launch)
		return err
	}); err != nil {
		return agent.Exit{Code: -1, Reason: err.Error()}
	}
	parent := c.parent
	exit := c.run(abortCh, report)
	if exit.Left {
		return exit
	}
	exit.Held = c.held(exit)
	if parent != nil && launch.Hot() && !c.live.Load() {
		exit.Blinded = closed(parent.ready(context.Background()))
	}
	p.bury(c)
	p.keep(c)
	return exit
}

// begin prepares an epoch and forks it.
func (p *Proxy) begin(launch agent.Launch) (*process, error) {
	in, err := p.Slot.Room()
	if err != nil {
		return nil, err
	}
	c := &process{
		Proxy:  p,
		launch: launch,
		files:  filesOf(in, epochName(launch.Epoch), launch.Config.Format),
		output: newOutput(p.Output, launch.Epoch), started: time.Now(),

		stirred: make(chan struct{}, 1),
	}
	c.files.records = recordsFor(p.Records, launch.Config.Bootstrap, p.Options)
	c.admin = NewAdmin(c.files.admin)
	c.admin.Spare = p.Spare
	p.hold(c)
	if err := writeFile(c.files.bootstrap, c.files.withAdmin(launch.Config.Bootstrap)); err != nil {
		if kept := c.files.keepInMemory(launch.Config.Bootstrap); kept != nil {
			return nil, errors.Join(err, kept)
		}
		p.Log.Warn("bootstrap not written: Envoy gets it in memory", "epoch", launch.Epoch, "err", err)
	}
	if err := p.join(c, in); err != nil {
		return nil, errors.Join(err, c.files.remove())
	}
	if err := c.fork(); err != nil {
		p.forget(c)
		return nil, errors.Join(err, c.files.remove())
	}
	return c, nil
}

// join assigns a process its family, with sockets in a room, and its parent, by the core's numbers.
func (p *Proxy) join(c *process, in room) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.processes == nil {
		p.processes, p.families = map[int]*process{}, map[int]hotrestart.Sockets{}
	}
	family, known := p.families[c.launch.Family]
	if !known && p.HotRestart {
		var err error
		if family, err = hotrestart.NewSockets(in.dir, in.token); err != nil {
			p.Log.Warn("no hot restart: handovers are side by side", "epoch", c.launch.Epoch, "err", err)
		}
	}
	if err := p.Slot.Starting(family.BaseID); err != nil { // only needed after a crash of the agent
		p.Log.Warn("Envoy not recorded for a next agent", "epoch", c.launch.Epoch, "err", err)
	}
	c.sockets, c.parent = family, p.processes[c.launch.Epoch-1]
	p.shieldParent(c.parent)
	if c.parent != nil && c.parent.launch.Family == c.launch.Family {
		c.parent.succeeded.Store(true)
	}
	if c.parent != nil && c.parent.launch.Family != c.launch.Family && !procnet.Migrates() {
		p.Log.Warn("side by side without net.ipv4.tcp_migrate_req=1: a few new connections may be reset", "epoch", c.launch.Epoch)
	}
	if c.parent != nil && c.launch.Hot() {
		c.parent.rememberPorts()
	}
	p.families[c.launch.Family] = family
	p.processes[c.launch.Epoch] = c
	return nil
}

// hold gives a newcomer a gate if its parent serves. An Envoy that starts because none serves is not held.
func (p *Proxy) hold(c *process) {
	parent := p.before(c.launch.Epoch)
	if parent == nil || !parent.live.Load() || parent.replaced.Load() || !p.gated(c.launch.Config) {
		return
	}
	addresses, err := procnet.AddressesOf(parent.pid)
	if err != nil {
		p.Log.Warn("newcomer not held until it has its parent's listeners: these are not known", "epoch", c.launch.Epoch, "err", err)
		return
	}
	c.gate = newGate(addresses)
	c.files.gate = c.gate.static(p.Gates.Socket)
}

// before returns the process of the epoch before one; nil when none runs.
func (p *Proxy) before(epoch int) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.processes[epoch-1]
}

// unsucceeded records that an epoch still has its admin, if no newcomer runs any more: the newcomer failed before it
// closed the admin.
func (c *process) unsucceeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next := c.processes[c.launch.Epoch+1]; next == nil {
		c.succeeded.Store(false)
	}
}

// known publishes the pid of a forked process.
func (c *process) known(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid = pid
}

// bury removes the files and records of a reaped process.
func (p *Proxy) bury(c *process) {
	if c.gate != nil {
		p.Gates.Shut(c.gate.secret)
	}
	p.forget(c)
	if err := errors.Join(c.files.remove(), p.Slot.Ended(c.pid)); err != nil {
		p.Log.Warn("remains of an Envoy not removed", "epoch", c.launch.Epoch, "err", err)
	}
}

func (p *Proxy) forget(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.processes, c.launch.Epoch)
	if c.requester != nil {
		_ = c.requester.Close()
	}
	p.unshield()
	for _, other := range p.processes {
		if other.launch.Family == c.launch.Family {
			return
		}
	}
	for rescue, family := range p.rescues {
		if family == c.launch.Family {
			_ = rescue.Close() // while its socket is open, the family counts as in use
		}
	}
	delete(p.families, c.launch.Family)
}

// serving returns the newest epoch that serves, else the newest; nil when none runs.
func (p *Proxy) serving() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var best *process
	for _, c := range p.processes {
		if c.pid == 0 {
			continue
		}
		if best == nil || c.live.Load() == best.live.Load() && c.launch.Epoch > best.launch.Epoch || c.live.Load() && !best.live.Load() {
			best = c
		}
	}
	return best
}

// Admin returns the admin of the epoch that serves, else of the newest; nil when none runs.
func (p *Proxy) Admin() *Admin {
	if c := p.serving(); c != nil {
		return c.admin
	}
	return nil
}

// Started returns when the epoch that serves was started, else the newest; zero when none runs.
func (p *Proxy) Started() time.Time {
	if c := p.serving(); c != nil {
		return c.started
	}
	return time.Time{}
}

// Current returns the epoch that serves, else the newest, when it was started, and its admin, which is nil when none runs.
func (p *Proxy) Current() (epoch int, started time.Time, admin *Admin) {
	if c := p.serving(); c != nil {
		return c.launch.Epoch, c.started, c.admin
	}
	return 0, time.Time{}, nil
}

// Launched describes a process that was started.
type Launched struct {
	Started   time.Time
	Bootstrap string
	Trial     bool // it tries a configuration, and never serves
}

// Launched returns what a process is; false if it is none of these.
func (p *Proxy) Launched(pid int) (l Launched, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pid == 0 {
		return l, false // of one that is about to be forked
	}
	for _, c := range p.processes {
		if c.pid == pid {
			return Launched{Started: c.started, Bootstrap: c.launch.Config.Bootstrap}, true
		}
	}
	for _, c := range p.trials {
		if c.pid == pid {
			return Launched{Started: c.started, Bootstrap: c.launch.Config.Bootstrap, Trial: true}, true
		}
	}
	return l, false
}

// Serves reports whether the Envoy that was started at a time serves: it is not held, and none serves in its place.
func (p *Proxy) Serves(started time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.processes {
		if c.started.Equal(started) {
			return c.live.Load() && !c.replaced.Load()
		}
	}
	return false
}

// Pids returns the process of each epoch that runs.
func (p *Proxy) Pids() map[int]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	pids := map[int]int{}
	for epoch, c := range p.processes {
		if c.pid != 0 {
			pids[epoch] = c.pid
		}
	}
	return pids
}

// checkTimeout bounds a validation: Envoy takes 1.2 s to validate 1,000 clusters.
const checkTimeout = 30 * time.Second

// Check implements agent.Proxy. It checks the certificates, then the bootstrap by a trial, or else by Envoy's own validation with the
// same arguments, then whether the two Envoys have the same hot-restart version.
func (p *Proxy) Check(ctx context.Context, config agent.Config) (hot bool, err error) {
	if p.CheckCertificates != nil {
		if err := p.CheckCertificates(); err != nil {
			return false, err
		}
	}
	if tried, err := p.try(ctx, config); err != nil {
		return false, err
	} else if !tried {
		if err := p.validate(ctx, config); err != nil {
			return false, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return p.sameProtocol(bounded)
}

// validate runs Envoy's own validation of a configuration.
func (p *Proxy) validate(ctx context.Context, config agent.Config) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	path, err := writeCheck(p.Slot.Dir(), config)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	return Validate(ctx, p.Binary, path, p.Records, p.Options)
}

// sameProtocol compares the hot-restart version of the binary on disk with that of the running one, which may have been
// replaced on disk since. A newcomer aborts if the socket of the running one was removed.
func (p *Proxy) sameProtocol(ctx context.Context) (bool, error) {
	running := p.serving()
	if running == nil || running.sockets.BaseID == 0 {
		return false, nil
	}
	if path := running.sockets.Path("parent", running.launch.Restart); !present(path) {
		p.Log.Warn("no hot restart: the socket of the running Envoy was removed", "path", path)
		return false, nil
	}
	next, err := p.version(ctx, p.Binary)
	if err != nil {
		return false, err
	}
	current, err := p.version(ctx, fmt.Sprintf("/proc/%d/exe", running.pid))
	if err != nil {
		return false, nil // it is unknown, so side-by-side is the way
	}
	return next == current, nil
}

// Repair implements agent.Proxy: a newcomer that ended before it served leaves the INITIALIZING flag of its family set.
func (p *Proxy) Repair(newcomer agent.Launch) error {
	family := p.family(newcomer.Family).BaseID
	if family == 0 {
		return nil
	}
	_, err := family.ClearInitializing()
	return err
}

// Rescue implements agent.Proxy.
func (p *Proxy) Rescue(ctx context.Context, parent agent.Launch, until time.Time) error {
	family := p.family(parent.Family)
	if family.BaseID == 0 {
		return nil
	}
	p.mu.Lock()
	done := p.shielded(parent.Family, parent.Restart) || p.stoodIn(parent.Family, parent.Restart)
	requester := p.requesterTo(parent.Family, parent.Restart)
	p.mu.Unlock()
	if done {
		return nil // until its newcomer has ended too
	}
	rescue, err := hotrestart.BindParent(family, parent.Restart)
	if err != nil {
		return err
	}
	rescue.Connected = requester
	if !p.stands(rescue, parent.Family) {
		return rescue.Close() // its newcomer has ended meanwhile
	}
	defer p.stood(rescue)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := rescue.Answer(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // no message came: the newcomer had sent it before the parent died, or has ended
}

// stoodIn reports whether a socket answers in place of the process of a restart epoch: see keepParent. The caller holds the lock.
func (p *Proxy) stoodIn(family, restart int) bool {
	for rescue, of := range p.rescues {
		if of == family && rescue.Epoch == restart {
			return true
		}
	}
	return false
}

// stands records a Rescue, whose family closes it when it ends. It reports whether the family has not ended yet.
func (p *Proxy) stands(rescue *hotrestart.Rescue, family int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.families[family].BaseID == 0 {
		return false
	}
	if p.rescues == nil {
		p.rescues = map[*hotrestart.Rescue]int{}
	}
	p.rescues[rescue] = family
	return true
}

func (p *Proxy) stood(rescue *hotrestart.Rescue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rescues, rescue)
}

func (p *Proxy) family(number int) hotrestart.Sockets {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.families[number]
}

var _ agent.Proxy = (*Proxy)(nil)
