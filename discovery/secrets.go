package discovery

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Vault receives each new set of secrets. One goroutine at a time uses it.
type Vault interface {
	SetSecrets(secret.Set)
}

// runSecrets runs the sources of secrets until ctx is done, and gives the vault each new set. It calls settled once the
// first mesh waits for none of them, and the vault has their secrets.
func (s *Server) runSecrets(ctx context.Context, roster <-chan struct{}, settled func()) error {
	state := newSecretState(s.Patience.Sync)
	in := make(chan secretEvent)
	stops := map[*secretFeed]context.CancelFunc{}
	var g errgroup.Group
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	for waiting := true; ; {
		changed := false
		select {
		case <-ctx.Done():
			for _, stop := range stops {
				stop()
			}
			return g.Wait()
		case <-roster:
			var start, stop []*secretFeed
			start, stop, changed = state.reconcile(s.secretRoster.all(), time.Now())
			for _, f := range stop {
				stops[f]()
				delete(stops, f)
			}
			for _, f := range start {
				var running context.Context
				running, stops[f] = context.WithCancel(ctx)
				g.Go(func() error { s.superviseSecrets(running, f, in); return nil })
			}
		case event := <-in:
			changed = state.apply(event, time.Now())
		case <-timer.C:
		}
		if next := state.expire(time.Now()); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		done := waiting && state.complete()
		if done && len(state.sources) > 0 || changed && !waiting {
			s.Vault.SetSecrets(state.unite())
		}
		for _, m := range state.messages {
			s.Log.Log(ctx, m.level, m.text, m.args...)
		}
		state.messages = nil
		statuses := state.report()
		s.secretStatuses.Store(&statuses)
		if done {
			waiting = false
			settled()
		}
	}
}

// superviseSecrets runs one source again and again until ctx is done or it has nothing more to send.
func (s *Server) superviseSecrets(ctx context.Context, f *secretFeed, in chan<- secretEvent) {
	again(ctx, s.random,
		func() error { return followSecrets(ctx, f, in) },
		func(err error, wait time.Duration) {
			sendSecrets(ctx, in, secretEvent{feed: f, ended: true, err: err, restart: wait})
		})
}

// followSecrets runs a source once and sends its events to in.
func followSecrets(ctx context.Context, f *secretFeed, in chan<- secretEvent) error {
	sendSecrets(ctx, in, secretEvent{feed: f, started: true})
	var g errgroup.Group
	updates := make(chan secret.Update)
	g.Go(func() error {
		defer close(updates)
		return f.source.Run(ctx, updates)
	})
	g.Go(func() error {
		for u := range updates {
			sendSecrets(ctx, in, secretEvent{feed: f, update: u})
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("run source %s: %w", f.name, err)
	}
	return nil
}

func sendSecrets(ctx context.Context, in chan<- secretEvent, event secretEvent) {
	select {
	case in <- event:
	case <-ctx.Done():
	}
}
