package cert

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// proofLimit is how long Envoy has to present a new certificate: it takes 2 to 40 ms when it sees the change.
const (
	proofLimit    = 5 * time.Second
	proofInterval = 20 * time.Millisecond
)

// Proof asks whether Envoy has taken a new certificate by itself. One that it has not taken needs a new epoch.
type Proof struct {
	Never     bool                                                        // it is to be taken by a new epoch always
	Presented func(ctx context.Context) (serials []string, answered bool) // of all certificates that Envoy has now
	Log       *slog.Logger
}

// Taken reports whether Envoy presents the new certificate where it presented the one before; within proofLimit, or when ctx
// ends.
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
			if q.old != q.new && slices.Contains(q.presented, q.new) {
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

// question is what a look at Envoy says of a rotation from one serial to another.
type question struct {
	old, new  string
	presented []string
	answered  bool // Envoy did
	late      bool // the time of the proof is over
}

type verdict int

const (
	undecided verdict = iota // it may be about to take it
	taken                    // it presents the new one, or has no use for these files
	silent                   // it did not answer in time
	unproven                 // it uses a chain whose key or roots have changed, which it does not show
	refused                  // it presents the old one still
)

func (q question) verdict() verdict {
	usesOld := slices.Contains(q.presented, q.old)
	switch {
	case !q.answered && !q.late: // a handover may be under way
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
