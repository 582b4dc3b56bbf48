package protocol

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// open reports whether k may be sent now. A response follows the answer to the one before. Clusters alone may follow an
// answer that is overdue: once, and again after each request from Envoy, so that few responses are buffered for an
// Envoy that does not read.
func (p *Session) open(k content.Kind, now time.Time) bool {
	s := &p.types[k]
	if s.pending {
		return k == content.CDS && s.overdue(now) && (!s.again || p.heard.After(s.at))
	}
	switch {
	case p.keeps(k): // a greeting changes nothing
		return true
	case k == content.LDS, k == content.RDS:
		return !p.gated(k, now)
	case k == content.NDS: // a name may resolve to an address that a new listener serves
		return !p.behind(content.LDS)
	default:
		return true
	}
}

// gated reports whether listeners or routes must wait: for endpoints that are held back, and for clusters that they name
// and that Envoy does not have. A cluster that changed does not count, since Envoy keeps the old one until the new one is
// warm. Routes themselves are never warmed.
func (p *Session) gated(k content.Kind, now time.Time) bool {
	if p.behind(content.EDS) && !p.types[content.EDS].overdue(now) {
		return true
	}
	s := &p.types[content.CDS]
	if (!s.pending || s.overdue(now)) && !p.behind(content.CDS) {
		return false
	}
	update := p.news(k, p.target(k))
	return update != nil && (s.accepted == nil || p.share.Mentions(update, p.share.Added(s.accepted, p.clusters())))
}

// held reports whether a part of the rollout must still be sent before the next rollout may begin.
func (p *Session) held(now time.Time) bool {
	return p.behind(content.CDS) || p.behind(content.LDS) && p.gated(content.LDS, now) || p.behind(content.RDS) && p.gated(content.RDS, now)
}

// Wakes returns when something may be sent even if Envoy sends nothing until then: the zero time for never.
func (p *Session) Wakes(now time.Time) (wake time.Time) {
	for _, k := range []content.Kind{content.CDS, content.EDS} {
		s := &p.types[k]
		if s.pending {
			wake = earliest(now, wake, s.at.Add(Patience))
		}
	}
	if !wake.IsZero() && p.rollout == p.latest && !p.behind(content.CDS) && !p.behind(content.LDS) && !p.behind(content.RDS) {
		wake = time.Time{}
	}
	if p.back.Waits() {
		wake = earliest(now, wake, p.back.Until)
	}
	for k := range content.Kinds {
		if s := &p.types[k]; s.hasChanges() && !s.pending {
			wake = earliest(now, wake, s.changes.applyAfter(s.names.Len()))
		}
	}
	return wake
}

// earliest returns the earlier one of two times after now; the zero time is none.
func earliest(now, a, b time.Time) time.Time {
	if b.After(now) && (a.IsZero() || b.Before(a)) {
		return b
	}
	return a
}
