package cert

import (
	"context"
	"log/slog"
	"slices"
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

// proofLimit is how long Envoy has to present a new certificate: it takes 2 to 40 ms if it notices the change.
const (
	proofLimit    = 5 * time.Second
	proofInterval = 20 * time.Millisecond
)

// Proof checks whether Envoy has loaded a new certificate by itself. A certificate that it has not loaded needs a new epoch.
type Proof struct {
	Never     bool                                                        // no check: each certificate needs a new epoch
	Presented func(ctx context.Context) (serials []string, answered bool) // of all certificates that Envoy has now
	// Shown returns the serial of the certificate that the agent itself would show to discovery now, empty for none. It may be nil. It
	// proves nothing for Envoy, whose listeners may use the same files.
	Shown func() string
	Log   *slog.Logger
}

// Taken reports whether Envoy presents the new certificate instead of the one before. It returns within proofLimit, or
// when ctx ends.
func (p Proof) Taken(ctx context.Context, before, now Observation) bool {
	if p.Never {
		return false
	}
	deadline := time.Now().Add(proofLimit)
	q := question{old: before.Infos[0].Serial, new: now.Infos[0].Serial}
	for {
		q.presented, q.answered = p.Presented(ctx)
		q.late = !time.Now().Before(deadline)
		switch q.verdict() {
		case taken:
			if q.old != q.new && (slices.Contains(q.presented, q.new) || p.Shown != nil && p.Shown() == q.new) {
				p.Log.Info("certificate rotated", "serial", q.new)
			}
			return true
		case silent:
			p.Log.Warn("Envoy does not say which certificates it has, handing over", "serial", q.new)
			return false
		case unproven:
			return false
		case refused:
			p.Log.Warn("Envoy has not taken the new certificate, handing over", "serial", q.new, "presents", q.presented)
			return false
		}
		select {
		case <-ctx.Done():
			return true
		case <-time.After(proofInterval):
		}
	}
}

// question is the result of a query of Envoy during a rotation from one serial to another.
type question struct {
	old, new  string
	presented []string
	answered  bool // Envoy has answered
	late      bool // the time of the proof is over
}

type verdict int

const (
	undecided verdict = iota // Envoy may still load it
	taken                    // Envoy presents the new one, or does not use these files
	silent                   // Envoy did not answer in time
	unproven                 // Envoy uses a chain whose key or roots have changed, which its answer does not show
	refused                  // Envoy still presents the old one
)

func (q question) verdict() verdict {
	usesOld := slices.Contains(q.presented, q.old)
	switch {
	case !q.answered && !q.late: // a handover may be running
		return undecided
	case !q.answered:
		return silent
	case q.old == q.new && usesOld:
		return unproven
	case q.old == q.new:
		return taken
	case slices.Contains(q.presented, q.new):
		return taken
	case !q.late:
		return undecided
	case !usesOld:
		return taken
	}
	return refused
}
