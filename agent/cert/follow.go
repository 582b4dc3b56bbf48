package cert

import (
	"context"
	"log/slog"
	"time"
)

// Follower looks at sets again and again. A change that Envoy does not take by itself becomes a handover.
type Follower struct {
	Recheck time.Duration // between two looks without a tick
	Proof   Proof
	Log     *slog.Logger
}

// Follow looks at a set at each tick until ctx ends. The hash of certificates that only a new epoch takes goes to rotations.
func (f Follower) Follow(ctx context.Context, set *Set, ticks <-chan struct{}, rotations chan<- string) {
	for set.missing() {
		set.absent.Store(true)
		select {
		case <-ctx.Done():
			return
		case <-ticks: // its directory is watched though it is not there
		}
	}
	observations := make(chan Observation)
	loop := Loop{Sets: []Files{set.Files}, Recheck: f.Recheck, Log: f.Log}
	go func() {
		defer close(observations)
		_ = loop.Run(ctx, ticks, observations) // ends with ctx
	}()
	var last Observation
	first := true
	for o := range observations {
		set.seen.Store(&o)
		set.absent.Store(false)
		if o.Fault() != "" || o.Hash == last.Hash {
			continue // Envoy keeps what it has
		}
		before := last
		last = o
		if !first && !f.Proof.Taken(ctx, before, o) {
			select {
			case rotations <- o.Hash:
			case <-ctx.Done():
			}
		}
		first = false
	}
}
