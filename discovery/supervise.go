package discovery

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A source that fails is started again after firstDelay, then twice as long each time, up to lastDelay. One that ran as
// long as lastDelay begins anew.
const (
	firstDelay = time.Second
	lastDelay  = 30 * time.Second
)

// nextDelay returns how long to wait after a source ran for a while, given the delay before that.
func nextDelay(last, ran time.Duration) time.Duration {
	if last == 0 || ran >= lastDelay {
		return firstDelay
	}
	return min(2*last, lastDelay)
}

// supervise runs one source again and again until ctx is done or it has nothing more to tell.
func (s *Server) supervise(ctx context.Context, name string, source Source, in chan<- said) error {
	for delay := time.Duration(0); ; {
		start := time.Now()
		err := follow(ctx, name, source, in)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		delay = nextDelay(delay, time.Since(start))
		s.Log.Error("source ended, its last state stays", "source", name, "err", err, "restart", delay)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil
		}
	}
}

// follow runs a source once and passes on what it says under its name.
func follow(ctx context.Context, name string, source Source, in chan<- said) error {
	send(ctx, in, said{source: name, restart: true})
	var g errgroup.Group
	updates := make(chan model.Update)
	g.Go(func() error {
		defer close(updates)
		return source.Run(ctx, updates)
	})
	g.Go(func() error {
		for u := range updates {
			send(ctx, in, said{source: name, update: u})
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("run source %s: %w", name, err)
	}
	return nil
}

func send(ctx context.Context, in chan<- said, s said) {
	select {
	case in <- s:
	case <-ctx.Done():
	}
}
