package proxy

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/watch"
)

// recheck is how often the watched files are read without an event, since events can get lost.
const recheck = time.Minute

// feed watches the files, and starts the goroutines that act on their changes.
func (r *running) feed(ctx context.Context, feeders *sync.WaitGroup, first agent.Config, configCh chan<- agent.Config) {
	log := r.config.Log
	ticks, configTicks := make(chan struct{}, 1), make(chan struct{}, 1)
	listeners := []chan<- struct{}{configTicks}
	rotations := make(chan string)
	watcher := watch.Watcher{
		Paths: r.watched(), Quiet: 20 * time.Millisecond, Ceiling: time.Second, Recheck: recheck, Log: log,
	}
	feeders.Go(func() {
		if err := watcher.Run(ctx, ticks); err != nil && ctx.Err() == nil {
			log.Error("files not watched", "err", err)
		}
	})
	follower := cert.Follower{
		Recheck: recheck, Proof: cert.Proof{Never: r.config.NewEpochs, Presented: presented(r.child), Shown: r.shown, Log: log}, Log: log,
	}
	for _, set := range r.config.Certificates {
		certTicks := make(chan struct{}, 1)
		listeners = append(listeners, certTicks)
		feeders.Go(func() { follower.Follow(ctx, set, certTicks, rotations) })
	}
	secretTicks := make(chan struct{}, 1)
	listeners = append(listeners, secretTicks)
	feeders.Go(func() { r.secrets.follow(ctx, secretTicks) })
	feeders.Go(func() { r.lookOnHangUp(ctx, ticks) })
	feeders.Go(func() { fan(ctx, ticks, listeners...) })
	feeders.Go(func() {
		r.want.feed(ctx, first, configTicks, rotations, func(hash string) { r.rotated.Store(&hash) }, configCh, log)
	})
}

// watched returns the files to watch.
func (r *running) watched() []string {
	paths := append(r.want.source.paths(), r.want.binary)
	for _, set := range r.config.Certificates {
		paths = append(paths, set.Paths()...)
	}
	return paths
}

// lookOnHangUp causes a read of every watched file when the agent receives SIGHUP.
func (r *running) lookOnHangUp(ctx context.Context, ticks chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.process.HangUp:
		}
		r.config.Log.Info("SIGHUP received: every watched file is read")
		if err := agent.Tell(ctx, r.askCh, agent.Recheck); err != nil && ctx.Err() == nil {
			r.config.Log.Warn("refused configuration not checked again", "err", err)
		}
		select {
		case ticks <- struct{}{}:
		default: // a read is due already
		}
	}
}

// lookOnChange causes an observation of Envoy when the kernel reports that a child has stopped or exited.
func (r *running) lookOnChange(ctx context.Context) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)
	defer signal.Stop(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			r.child.Stirred()
		}
	}
}

// fan repeats each tick to several listeners. For a listener that has not received the last tick yet, ticks become one.
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
