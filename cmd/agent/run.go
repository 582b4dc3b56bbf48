package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/watch"
)

// recheck is how often watched files are looked at without an event, against those that get lost.
const recheck = time.Minute

// settle makes the agent small once Envoy serves; a start has no time for it. The heap is mostly garbage of probes, so
// what little a collection costs buys megabytes beside every workload. A second processor would only be woken to look
// for work that is not there.
func settle() {
	const gcPercent = 25
	debug.SetGCPercent(gcPercent)
	debug.FreeOSMemory() // what the start needed and nothing will again
	runtime.GOMAXPROCS(1)
}

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
	removeSecrets, err := p.writeSecrets()
	if err != nil {
		return err
	}
	defer removeSecrets()
	first, err := p.config()
	if err != nil {
		return err
	}
	p.child = p.newChild(slot)
	stop, err := p.serve()
	if err != nil {
		return err
	}
	defer stop()
	p.log.Info("proxy",
		"node", p.params.Node.String(), "envoy", p.binary, "discovery", p.settings.discoveryAddress, "dir", slot.Dir())
	return p.supervise(ctx, first, slot.Dir())
}

func (p *proxy) newChild(slot *envoy.Slot) *envoy.Proxy {
	shared := envoy.SharedMemory()
	if shared != nil {
		p.log.Warn("no hot restart: handovers are side by side", "error", shared)
	}
	return &envoy.Proxy{
		Binary:            p.binary,
		Slot:              slot,
		HotRestart:        shared == nil,
		Options:           p.settings.options(),
		Env:               withServiceName(p.environ, p.settings.serviceCluster),
		Log:               p.log,
		Output:            p.log,
		Stdout:            p.stdout,
		CheckCertificates: p.checkCertificates,
		CertificateFault:  p.certificateFault,
		Judged:            p.remember,
		Fork: func(f func()) {
			p.fork(f)
			p.forkedOnce.Do(func() { close(p.forked) })
		},
	}
}

// supervise runs the supervisor and what feeds it, until it ends.
func (p *proxy) supervise(ctx context.Context, first agent.Config, dir string) error {
	configCh := make(chan agent.Config, 1)
	configCh <- first
	var ready sync.Once // to the service manager
	defer context.AfterFunc(ctx, func() { p.notifier.tell("STOPPING=1") })()
	recorder := newRecorder(filepath.Join(dir, "flight"), p.child, p.log)
	supervisor := &agent.Agent{
		Settings: p.settings.supervision(),
		Proxy:    p.child,
		ConfigCh: configCh,
		HurryCh:  p.hurry,
		AskCh:    p.askCh,
		Log:      p.log,
		Observe: func(s agent.Status) {
			p.status.Store(&s)
			p.remember()
			p.journal.Observe(s, func(epoch int) []string { return p.child.Remains(epoch).LastLines })
			recorder.observe(s)
			if s.Counts[agent.Serving] == 1 {
				ready.Do(func() { p.notifier.tell("READY=1\nSTATUS=Envoy serves") })
				settle()
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
		p.feed(feeding, &feeders, first, configCh)
		feeders.Go(func() { recorder.run(feeding) })
		feeders.Go(func() { p.notifier.live(feeding, p.loopAnswers) })
		if os.Getpid() == 1 {
			feeders.Go(func() { reapOrphans(feeding, p.log) })
		}
	})
	return supervisor.Run(ctx)
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
	for _, set := range p.certs {
		certTicks := make(chan struct{}, 1)
		listeners = append(listeners, certTicks)
		feeders.Go(func() { p.rotate(ctx, set, certTicks, rotations) })
	}
	feeders.Go(func() { fan(ctx, ticks, listeners...) })
	feeders.Go(func() { p.desire(ctx, first, configTicks, rotations, configCh) })
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
