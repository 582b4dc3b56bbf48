package discovery

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A source that fails is started again after firstDelay, then twice as long each time, up to lastDelay: so a registry
// that comes back after a long outage is followed within lastDelay. After a run of at least longRun the delay begins
// again at firstDelay.
const (
	firstDelay = time.Second
	lastDelay  = 10 * time.Second
	longRun    = 30 * time.Second
)

// nextDelay returns how long to wait after a source ran for a while, given the delay before that.
func nextDelay(last, ran time.Duration) time.Duration {
	if last == 0 || ran >= longRun {
		return firstDelay
	}
	return min(2*last, lastDelay)
}

// jittered shortens a delay by up to its half, by a random number of [0, 1): replicas that lost one registry do not all
// reconnect at once.
func jittered(delay time.Duration, random float64) time.Duration {
	return delay - time.Duration(random*float64(delay)/2)
}

// supervise runs one source again and again until ctx is done or it has nothing more to send.
func (s *Server) supervise(ctx context.Context, f *feed, random func() float64, in chan<- sourceEvent) {
	again(ctx, random,
		func() error { return follow(ctx, f, in) },
		func(err error, wait time.Duration) {
			send(ctx, in, sourceEvent{feed: f, ended: true, err: err, restart: wait})
		})
}

// again calls run repeatedly until ctx is done or run returns nil. It calls ended at each end, with the time until the
// next start.
func again(ctx context.Context, random func() float64, run func() error, ended func(err error, wait time.Duration)) {
	for delay := time.Duration(0); ; {
		start := time.Now()
		err := run()
		if ctx.Err() != nil {
			return
		}
		delay = nextDelay(delay, time.Since(start))
		wait := jittered(delay, random())
		ended(err, wait)
		if err == nil {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// follow runs a source once and sends its events to in.
func follow(ctx context.Context, f *feed, in chan<- sourceEvent) error {
	send(ctx, in, sourceEvent{feed: f, started: true})
	var g errgroup.Group
	updates := make(chan model.Update)
	g.Go(func() error {
		defer close(updates)
		return f.source.Run(ctx, updates)
	})
	g.Go(func() error {
		for u := range updates {
			send(ctx, in, sourceEvent{feed: f, update: u})
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("run source %s: %w", f.name, err)
	}
	return nil
}

func send(ctx context.Context, in chan<- sourceEvent, s sourceEvent) {
	select {
	case in <- s:
	case <-ctx.Done():
	}
}
