package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/footprint"
	"github.com/pilotlight/pilotlight/node"
	"github.com/pilotlight/pilotlight/watch"
)

// recheck is how often watched files are looked at without an event, against those that get lost.
const recheck = time.Minute

// run launches Envoy and returns when it is gone.
func (p *proxy) run(ctx context.Context) error {
	var err error
	if p.binary, err = envoy.Find(p.settings.binaryPath); err != nil {
		return fmt.Errorf("%s %s: %w", p.settings.origins["binaryPath"].Name, p.settings.binaryPath, err)
	}
	slot, err := envoy.Claim(p.settings.configPath, p.log)
	if err != nil {
		return fmt.Errorf("%s: %w", p.settings.origins["configPath"].Name, err)
	}
	defer func() {
		if err := slot.Release(); err != nil {
			p.log.Warn("clear up", "error", err)
		}
	}()
	p.params = withSecretsIn(p.params, slot.Dir())
	stopSDS, err := p.serveSDS() // before the bootstrap is rendered, which says whether there is SDS
	if err != nil {
		return err
	}
	defer stopSDS()
	first, err := p.config()
	if err != nil {
		return err
	}
	p.child = p.newChild(slot)
	p.log.Info("proxy",
		"node", p.params.Node.String(), "envoy", p.binary, "discovery", p.settings.discoveryAddress, "dir", slot.Dir())
	return p.supervise(ctx, first, slot.Dir())
}

func (p *proxy) newChild(slot *envoy.Slot) *envoy.Proxy {
	return &envoy.Proxy{
		Binary:            p.binary,
		Slot:              slot,
		HotRestart:        true,
		Options:           p.settings.options(),
		Env:               withServiceName(p.environ, p.settings.serviceCluster),
		Log:               p.log,
		Output:            p.log,
		Stdout:            p.printed,
		Spare:             envoy.NewSpare(),
		Redirected:        p.redirected(),
		Discovery:         p.discovery(),
		CheckCertificates: func() error { return p.certs.Check(time.Now()) },
		CertificateFault:  p.certs.Fault,
		Judged:            p.remember,
		Fork: func(f func()) {
			p.fork(f)
			p.forkedOnce.Do(func() { close(p.forked) })
		},
	}
}

// redirected reports whether traffic that is redirected depends on the listeners of discovery.
func (p *proxy) redirected() bool {
	mode := p.params.Metadata.InterceptionMode
	return p.params.Node.Role == node.Sidecar && (mode == node.Redirect || mode == node.TProxy) && p.settings.customConfigFile == ""
}

// discovery is whom a bootstrap that is rendered here names.
func (p *proxy) discovery() envoy.Discovery {
	if p.settings.customConfigFile != "" {
		return envoy.Discovery{}
	}
	d := p.params.Discovery
	out := envoy.Discovery{Host: d.Host, Port: d.Port, TLS: d.TLS != nil}
	if d.TLS != nil {
		out.SAN = d.TLS.SAN
	}
	return out
}

// supervise runs the supervisor and what feeds it, until it ends.
func (p *proxy) supervise(ctx context.Context, first agent.Config, dir string) error {
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	configCh := make(chan agent.Config, 1)
	configCh <- first
	defer context.AfterFunc(ctx, func() { p.notifier.tell("STOPPING=1") })()
	settle := onceServing(func() { footprint.Shrink(p.fork) })
	recorder := flight.NewRecorder(filepath.Join(dir, "flight"), p.child.Remains, p.log)
	supervisor := &agent.Agent{
		Settings: p.settings.supervision(),
		Proxy:    p.child,
		ConfigCh: configCh,
		HurryCh:  p.hurry,
		AskCh:    p.askCh,
		Log:      p.log,
		Observe: func(s agent.Status, news []agent.Event) {
			p.status.Store(&s)
			p.remember()
			p.journal.Observe(news, func(epoch int) []string { return p.child.Remains(epoch).LastLines })
			recorder.Observe(s.Events, news)
			settle(s)
			if s.Failures > 0 { // perhaps before a fork
				p.forkedOnce.Do(func() { close(p.forked) })
			}
		},
		Seed: rand.Uint64(),
	}
	// What feeds the supervisor ends with it, not before: certificates matter until the last request.
	feeding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var feeders sync.WaitGroup
	defer feeders.Wait()
	defer cancel()
	feeders.Go(func() {
		select { // nothing of this is needed before, and a start is in a hurry
		case <-p.forked:
		case <-feeding.Done():
			return
		}
		stop, err := p.serve(dir)
		if err != nil {
			refuse(&unserved{err})
			return
		}
		defer stop()
		defer func() { <-feeding.Done() }()
		p.feed(feeding, &feeders, first, configCh)
		feeders.Go(func() { p.lookOnChange(feeding) })
		feeders.Go(func() { recorder.Run(feeding) })
		feeders.Go(func() { footprint.Keep(feeding) })
		feeders.Go(func() { p.notifier.live(feeding, p.loopAnswers) })
		if os.Getpid() == 1 {
			feeders.Go(func() { envoy.ReapOrphans(feeding, p.log) })
		}
	})
	err := supervisor.Run(ctx)
	if busy := new(unserved); errors.As(context.Cause(ctx), &busy) {
		return busy.error
	}
	return err
}

// unserved ends a start: a port that was asked for cannot be opened.
type unserved struct{ error }

// onceServing does something when an epoch serves for the first time, and never again: it costs a collection, and the supervisor
// tells its status at each step.
func onceServing(do func()) func(agent.Status) {
	var once sync.Once
	return func(s agent.Status) {
		if s.Counts[agent.Serving] > 0 {
			once.Do(do)
		}
	}
}

// loopAnswers reports that the supervisor still decides.
func (p *proxy) loopAnswers(ctx context.Context) error {
	return agent.Tell(ctx, p.askCh, agent.Nothing)
}

// feed watches the inputs and tells the supervisor what is desired.
func (p *proxy) feed(ctx context.Context, feeders *sync.WaitGroup, first agent.Config, configCh chan<- agent.Config) {
	ticks, configTicks := make(chan struct{}, 1), make(chan struct{}, 1)
	listeners := []chan<- struct{}{configTicks}
	rotations := make(chan string)
	watcher := watch.Watcher{
		Paths: p.watched(), Quiet: 20 * time.Millisecond, Ceiling: time.Second, Recheck: recheck, Log: p.log,
	}
	feeders.Go(func() {
		if err := watcher.Run(ctx, ticks); err != nil && ctx.Err() == nil {
			p.log.Error("watch files", "error", err)
		}
	})
	follower := cert.Follower{Recheck: recheck, Proof: p.proof(), Log: p.log}
	for _, set := range p.certs {
		certTicks := make(chan struct{}, 1)
		listeners = append(listeners, certTicks)
		feeders.Go(func() { follower.Follow(ctx, set, certTicks, rotations) })
	}
	secretTicks := make(chan struct{}, 1)
	listeners = append(listeners, secretTicks)
	feeders.Go(func() { p.tellSecrets(ctx, secretTicks) })
	feeders.Go(func() { p.lookOnHangUp(ctx, ticks) })
	feeders.Go(func() { fan(ctx, ticks, listeners...) })
	feeders.Go(func() { p.desire(ctx, first, configTicks, rotations, configCh) })
}

// lookOnHangUp has every watched file looked at when the agent gets SIGHUP.
func (p *proxy) lookOnHangUp(ctx context.Context, ticks chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.hup:
		}
		p.log.Info("SIGHUP: look at every watched file")
		select {
		case ticks <- struct{}{}:
		default: // they are about to be looked at
		}
	}
}

// lookOnChange has Envoy looked at when the kernel says that a child has stopped or ended.
func (p *proxy) lookOnChange(ctx context.Context) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)
	defer signal.Stop(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			p.child.Stirred()
		}
	}
}

// watched are the files whose change means something.
func (p *proxy) watched() []string {
	paths := append(p.settings.inputs(), p.binary)
	for _, set := range p.certs {
		paths = append(paths, set.Paths()...)
	}
	return paths
}

// fan repeats each tick to several listeners; one that has not taken the last yet will see all in one.
func fan(ctx context.Context, ticks <-chan struct{}, listeners ...chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		for _, l := range listeners {
			select {
			case l <- struct{}{}:
			default:
			}
		}
	}
}
