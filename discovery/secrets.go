package discovery

import (
	"context"
	"time"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Vault receives each new set of secrets. One goroutine at a time uses it.
type Vault interface {
	SetSecrets(secret.Set)
}

// runSecrets runs the sources of secrets until ctx is done, and gives the vault each new set. It calls settled once the
// first mesh waits for none of them, and the vault has their secrets.
func (s *Server) runSecrets(ctx context.Context, roster <-chan struct{}, settled func()) error {
	state := newSecretState(s.Patience)
	running := newRunning[secret.Update](s.random)
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	for waiting := true; ; {
		changed := false
		select {
		case <-ctx.Done():
			return running.end()
		case <-roster:
			var start, stop []*secretFeed
			start, stop, changed = state.reconcile(s.secretRoster.all(), time.Now())
			running.change(ctx, start, stop)
		case event := <-running.events:
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
		state.write(ctx, s.Log)
		statuses := state.report()
		s.secretStatuses.Store(&statuses)
		if done {
			waiting = false
			settled()
		}
	}
}
