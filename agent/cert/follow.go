package cert

import (
	"context"
	"log/slog"
	"time"
)

// Follower reads sets repeatedly. For a change that Envoy does not load by itself it requests a handover.
type Follower struct {
	Recheck time.Duration // between two reads without a tick
	Proof   Proof
	Log     *slog.Logger
}

// Follow reads a set at each tick until ctx ends. It sends the hash of certificates that only a new epoch can load to
// rotations.
func (f Follower) Follow(ctx context.Context, set *Set, ticks <-chan struct{}, rotations chan<- string) {
	for set.missing() {
		set.absent.Store(true)
		select {
		case <-ctx.Done():
			return
		case <-ticks: // a missing directory is watched too
		}
	}
	observations := make(chan Observation)
	loop := Loop{Sets: []Files{set.Files}, Optional: set.Optional, NoRoots: set.NoRoots, Recheck: f.Recheck, Log: f.Log}
	go func() {
		defer close(observations)
		_ = loop.Run(ctx, ticks, observations) // ends with ctx
	}()
	var last Observation
	first := true
	if proven := set.proven.Load(); proven != nil { // by another image of the agent
		last, first = *proven, false
	}
	for o := range observations {
		set.observed(&o, time.Now())
		if o.Fault() != "" || o.Hash == last.Hash {
			continue // Envoy keeps its certificates
		}
		before := last
		last = o
		if !first && !f.Proof.Taken(ctx, before, o) {
			select {
			case rotations <- o.Hash:
			case <-ctx.Done():
			}
		}
		if ctx.Err() == nil {
			set.proven.Store(&o)
		}
		first = false
	}
}
