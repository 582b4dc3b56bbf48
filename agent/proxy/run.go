package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/footprint"
	"github.com/pilotlight/pilotlight/agent/handoff"
	"github.com/pilotlight/pilotlight/agent/records"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

// Run starts Envoy, or goes on with what another image of the agent has left, keeps it alive until ctx ends, and returns when it has
// exited: nil if it was asked to stop. If another image is to go on it returns a *Left, and Envoy lives. After an error with which
// process.Handed is not accepted, the image before can still go on.
func (p *Proxy) Run(ctx context.Context, process Process) error {
	c, err := newCarriage(process.Handed)
	if err != nil {
		return err
	}
	if err := p.run(ctx, process, c); c.leaving == nil {
		return err
	}
	left, err := c.depart()
	if err != nil {
		return fmt.Errorf("leave Envoy to another image of the agent: %w", err)
	}
	return left
}

func (p *Proxy) run(ctx context.Context, process Process, carriage *carriage) error {
	carriage.at(handoff.Decoded)
	binary, err := p.findEnvoy()
	if err != nil && carriage.handed != nil {
		p.config.Log.Warn("Envoy's binary is missing: the running Envoy serves on", "err", err)
		binary, err = p.config.Binary.Path, nil
	}
	if err != nil {
		return err
	}
	slot, err := carriage.slot(p.config)
	if err != nil {
		return fmt.Errorf("%s: %w", p.config.Dir.Name, err)
	}
	carriage.at(handoff.Slotted)
	p.settle(slot)
	c := p.config
	defer func() {
		if carriage.holds() {
			return
		}
		if err := slot.Release(); err != nil {
			c.Log.Warn("slot not cleared up", "err", err)
		}
	}()
	s := &secrets{workload: c.Certificates[0].Files, server: &sds.Server{Log: c.Log}, records: &records.Ring{Since: time.Now()}, log: c.Log}
	s.resume(carriage)
	params, stop, err := p.serveSecrets(carriage, s, slot) // before the bootstrap is rendered, which depends on the result
	if err != nil {
		return err
	}
	defer stop()
	if p.enrolled, err = p.openEnrollment(carriage); err != nil {
		return err
	}
	defer p.enrolled.run(ctx, carriage)()
	own, _, _ := s.readOwn(time.Now()) // a fault is reported with the other faults of the certificates
	if !own.Whole() {
		own = s.own
	}
	params.Metadata.Certificate = params.Metadata.AgentSDS == node.SDSFiles && (params.Metadata.Certificate || own.Whole() || p.enrolled != nil)
	relayed, params := p.openRelay(carriage, slot, params)
	want := desired{binary, c.Source, params}
	first, err := carriage.first(want, c.Log)
	if err != nil {
		return err
	}
	carriage.at(handoff.Adopting)
	r := p.newRunning(want, s, slot, process)
	r.report.enrolled = p.enrolled
	r.report.relayed, r.shown = relayed, relayed.shown
	if err := carriage.adopt(r, &first); err != nil {
		return err
	}
	carriage.at(handoff.Accepted)
	carriage.r, carriage.relayed = r, relayed
	defer relayed.serve(carriage, r.child)()
	served := []any{"node", params.Node.String(), "discovery", text(params.Discovery.Address)}
	if custom := c.Source.Custom.Path; custom != "" {
		served = []any{"bootstrap", custom} // it has its own node, and its own discovery or none
	}
	c.Log.Info("proxy", append(served, "envoy", binary, "dir", slot.Name())...)
	defer func() {
		if why := r.report.unready.Load(); why != nil && process.Unready != nil {
			process.Unready(*why)
		}
	}()
	return r.supervise(ctx, first, carriage)
}

func text(a bootstrap.Address) string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// serveSecrets serves SDS before Envoy starts. If it cannot, it returns an error where discovery uses TLS, and else
// parameters for a bootstrap without a cluster for SDS, and node metadata that reports this.
func (p *Proxy) serveSecrets(c *carriage, s *secrets, slot *envoy.Slot) (params bootstrap.Params, stop func(), err error) {
	params = p.params
	params.SecretsSocket = slot.Socket(secretsSocket)
	stop, err = s.listen(c, slot)
	switch {
	case err == nil:
		return params, stop, nil
	case params.Discovery.TLS != nil:
		return params, nil, fmt.Errorf("serve the certificates for discovery's mutual TLS: %w", err)
	}
	p.config.Log.Warn("SDS not served", "err", err)
	params.SecretsSocket, params.Metadata.AgentSDS, params.Metadata.Reports = "", node.SDSNone, node.ReportNothing
	return params, func() {}, nil
}

// running is a running proxy.
type running struct {
	config   Config
	process  Process
	slot     *envoy.Slot
	workload workload
	want     desired
	secrets  *secrets
	child    *envoy.Proxy
	report   *report
	shown    func() string // see cert.Proof
	askCh    chan agent.Ask
	forked   latch // opened when the first Envoy was forked, or could not be, or was taken over
	upgrader *upgrader
	rotated  atomic.Pointer[string] // see desired.feed
}

func (p *Proxy) newRunning(want desired, s *secrets, slot *envoy.Slot, process Process) *running {
	r := &running{
		config: p.config, process: process, slot: slot, workload: p.workload, want: want, secrets: s,
		askCh: make(chan agent.Ask), forked: latch{ch: make(chan struct{})},
	}
	r.report = &report{
		node: want.params.Node.String(), certificates: p.config.Certificates, config: p.config, secrets: s,
		notifier: newNotifier(p.env, os.Getpid(), p.config.Log), stderr: process.Stderr, printed: process.Printed,
	}
	r.upgrader = &upgrader{
		path: startPath(process.Argv[0], p.env["PATH"]), version: p.config.Version,
		argv: process.Argv, environ: p.config.Environ, able: handoff.Able, ask: handoff.Ask, log: p.config.Log,
		leave: func(ctx context.Context) error { return agent.Tell(ctx, r.askCh, agent.Leave) },
	}
	r.report.upgrader = r.upgrader
	r.child = p.newChild(want, s, slot, process, r.report.remember, r.forked.open)
	r.report.child = r.child
	return r
}

// flightRecords is the directory of the flight records in the slot.
const flightRecords = "flight"

// supervise runs the supervisor and the goroutines that feed it, until it ends.
func (r *running) supervise(ctx context.Context, first agent.Config, carriage *carriage) error {
	log := r.config.Log
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	configCh := make(chan agent.Config, 1)
	configCh <- first
	defer context.AfterFunc(ctx, func() {
		if carriage.leaving == nil {
			r.report.notifier.notify("STOPPING=1")
		}
	})()
	serving := latch{ch: make(chan struct{})}
	recorder := flight.NewRecorder(filepath.Join(r.slot.Dir(), flightRecords), filepath.Join(r.slot.Name(), flightRecords), r.child.Remains, log)
	supervisor := &agent.Agent{
		Settings: r.config.Supervision,
		Proxy:    r.child,
		ConfigCh: configCh,
		HurryCh:  r.process.Hurry,
		QuitCh:   r.process.Quit,
		AskCh:    r.askCh,
		Log:      log,
		Observe: func(s agent.Status, news []agent.Event) {
			r.report.observe(s, news)
			r.upgrader.observe(news)
			if carriage.handed != nil {
				r.forked.open()
			}
			recorder.Observe(s.Events, news)
			if s.Counts[agent.Serving] > 0 {
				serving.open()
			}
			if s.Failures > 0 { // the failure may have been before the fork
				r.forked.open()
			}
		},
		Seed:    rand.Uint64(),
		Carried: carriage.supervisor(),
	}
	// The watches that feed the supervisor end with it, not before: certificates are needed until the last request.
	feeding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var feeders sync.WaitGroup
	defer feeders.Wait()
	defer cancel()
	feeders.Go(func() {
		select { // wait for the fork: these goroutines are not needed before, and would delay the start
		case <-r.forked.ch:
		case <-feeding.Done():
			return
		}
		ports := r.config.Ports
		ports.Inherited, ports.Keep, ports.Unchanged = carriage.inherited, carriage.keep, r.upgrader.later
		if carriage.handed != nil { // a busy port ends a start, and no Envoy that serves
			ports.Status.Given, ports.Admin.Given = false, false
		}
		stop, err := status.Serve(r.statusConfig(), ports, r.slot.Socket(status.SocketName))
		if err != nil {
			refuse(&unserved{err})
			return
		}
		carriage.at(handoff.Served)
		defer func() {
			if carriage.leaving == nil {
				stop()
			}
			carriage.doors = stop
		}()
		defer func() { <-feeding.Done() }()
		r.feed(feeding, &feeders, first, configCh)
		feeders.Go(func() { r.lookOnChange(feeding) })
		r.followUpgrades(feeding, &feeders)
		feeders.Go(func() { recorder.Run(feeding) })
		feeders.Go(func() { footprint.Keep(feeding, serving.ch, r.process.Fork) })
		feeders.Go(func() { r.report.notifier.live(feeding, r.loopAnswers) })
		if os.Getpid() == 1 {
			feeders.Go(func() { envoy.ReapOrphans(feeding, log) })
		}
	})
	err := supervisor.Run(ctx)
	if errors.As(err, &carriage.leaving) {
		carriage.attend(r.askCh)
		handoff.At(handoff.Left)
		return err
	}
	if busy := new(unserved); errors.As(context.Cause(ctx), &busy) {
		return busy.error
	}
	return err
}

// unserved is the error that ends a start because a port that was set cannot be opened.
type unserved struct{ error }

func (r *running) statusConfig() status.Config {
	return status.Config{
		Document:    r.report.document,
		AskCh:       r.askCh,
		Upgrade:     r.upgrader.upgrade,
		Quit:        r.process.Stop, // no signal: after another signal it would be the second one, which ends the drain
		Envoy:       r.report.admin,
		Workload:    istioWorkload(r.want.params),
		Application: r.workload.application,
		Probes:      r.workload.probes,
		Envoys:      r.slot,
		Remake:      r.slot.Restore,
		Why:         r.why,
		Page:        r.page,
		Scraped:     r.want.params.PrometheusPort != 0 || r.config.Source.given(), // it may have such a listener
		Log:         r.config.Log,
	}
}

// loopAnswers returns nil if the supervisor's loop answers.
func (r *running) loopAnswers(ctx context.Context) error {
	return agent.Tell(ctx, r.askCh, agent.Nothing)
}

// latch is a channel that is closed once.
type latch struct {
	once sync.Once
	ch   chan struct{}
}

func (l *latch) open() { l.once.Do(func() { close(l.ch) }) }
