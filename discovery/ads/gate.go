package ads

import (
	"time"
)

// open reports whether k may be sent now. A response follows the answer to the one before. Clusters alone may follow an
// answer that is overdue: once, and again after each request from Envoy, so that few responses are buffered for an
// Envoy that does not read.
func (p *protocol) open(k kind, now time.Time) bool {
	s := &p.types[k]
	if s.pending {
		return k == cds && s.overdue(now) && (!s.again || p.heard.After(s.at))
	}
	switch k {
	case lds, rds:
		return !p.gated(k, now)
	case nds: // a name may resolve to an address that a new listener serves
		return !p.behind(lds)
	default:
		return true
	}
}

// gated reports whether listeners or routes must wait: for endpoints that are held back, and for clusters that they name
// and that Envoy does not have. A cluster that changed does not count, since Envoy keeps the old one until the new one is
// warm. Routes themselves are never warmed.
func (p *protocol) gated(k kind, now time.Time) bool {
	if p.behind(eds) && !p.types[eds].overdue(now) {
		return true
	}
	s := &p.types[cds]
	if (!s.pending || s.overdue(now)) && !p.behind(cds) {
		return false
	}
	update := p.news(k, p.target(k))
	return update != nil && (s.accepted == nil || p.share.mentions(update, p.share.added(s.accepted, p.clusters())))
}

// held reports whether a part of the rollout must still be sent before the next rollout may begin.
func (p *protocol) held(now time.Time) bool {
	return p.behind(cds) || p.behind(lds) && p.gated(lds, now) || p.behind(rds) && p.gated(rds, now)
}

// wakes returns when something may be sent even if Envoy sends nothing until then: the zero time for never.
func (p *protocol) wakes(now time.Time) (wake time.Time) {
	for _, k := range []kind{cds, eds} {
		s := &p.types[k]
		if s.pending {
			wake = earliest(now, wake, s.at.Add(patience))
		}
	}
	if !wake.IsZero() && p.rollout == p.latest && !p.behind(cds) && !p.behind(lds) && !p.behind(rds) {
		wake = time.Time{}
	}
	for k := range kinds {
		if s := &p.types[k]; s.hasChanges() && !s.pending {
			wake = earliest(now, wake, s.changes.applyAfter(s.names.len()))
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
