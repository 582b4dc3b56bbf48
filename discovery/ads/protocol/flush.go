package protocol

import (
	"errors"
	"strconv"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// Flush returns the responses that may be sent now; the others follow Envoy's answers. A rollout is finished before the
// next begins: if clusters were always brought to the newest state first, endless changes would starve the routes,
// which come last. A rollout whose clusters are still to be sent has not begun.
func (p *Session) Flush(now time.Time) []Response {
	p.review(now)
	for k := range content.Kinds {
		if s := &p.types[k]; s.mayApply(now) {
			p.fault = errors.Join(p.fault, s.apply(k, p.share, now))
		}
		p.skipTrials(k)
	}
	if p.behind(content.CDS) || !p.behind(content.LDS) && !p.behind(content.RDS) {
		p.rollout = p.latest // else endpoints, which are always the newest, would overtake clusters
	}
	var out []Response
	for {
		out = p.step(out, now)
		if p.rollout == p.latest || p.held(now) {
			break
		}
		p.rollout = p.latest
	}
	p.resetReferences()
	return out
}

// step appends the responses that may be sent now, in order.
func (p *Session) step(out []Response, now time.Time) []Response {
	for _, k := range content.Order() {
		if p.types[k].asked && p.open(k, now) {
			if r, news := p.next(k, now); news {
				out = append(out, r)
			}
		}
	}
	return out
}

// next returns the response that brings Envoy to the state of k, and whether it needs one. It records that Envoy will
// have it.
func (p *Session) next(k content.Kind, now time.Time) (Response, bool) {
	s := &p.types[k]
	if p.keeps(k) {
		return p.greetOnly(k, now)
	}
	want := p.target(k)
	update := p.update(k, want)
	if update == nil && s.greet {
		update = &content.Update{}
	}
	old := s.sent
	s.sent, s.due, s.greet = want, nil, false
	if update == nil {
		if s.accepted == old {
			s.accepted = want // the same content; this frees the older value
		}
		return Response{}, false
	}
	switch k {
	case content.CDS:
		p.types[content.EDS].rewarm(old, want, p.share)
	case content.LDS, content.RDS:
		p.references[k].sent = p.clusters()
	}
	return p.respond(k, want.Version, update, now), true
}

// greetOnly answers the first wildcard subscription of a client that keeps what it has: nothing has changed. Without an
// answer discovery would look dead to it.
func (p *Session) greetOnly(k content.Kind, now time.Time) (Response, bool) {
	s := &p.types[k]
	if !s.greet || s.sent == nil {
		return Response{}, false
	}
	s.greet = false
	return p.respond(k, s.sent.Version, &content.Update{}, now), true
}

// respond records a response that is sent now.
func (p *Session) respond(k content.Kind, version string, news *content.Update, now time.Time) Response {
	s := &p.types[k]
	p.nonces++
	if !s.pending {
		s.since = now
	}
	s.nonce, s.version, s.at, s.again, s.pending, s.nacked = strconv.Itoa(p.nonces), version, now, s.pending, true, false
	return Response{p.variant, k, s.nonce, s.version, news}
}

// Renew makes latest the state to be reached, by the next request or flush.
func (p *Session) Renew(latest *content.Snapshot, sh *content.Share, w MeshState) {
	p.latest, p.share, p.mesh = latest, sh, w
}

// resetReferences notes that the listeners and routes that Envoy has accepted refer to clusters of the rollout only.
func (p *Session) resetReferences() {
	for _, k := range []content.Kind{content.LDS, content.RDS} {
		if s := &p.types[k]; s.asked && p.settled(k) {
			now := p.clusters()
			p.references[k] = references{now, now, now}
		}
	}
}

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

// gated reports whether listeners or routes must wait: for endpoints that are held back, and for clusters that they
// name and that Envoy does not have. A cluster that changed does not count, since Envoy keeps the old one until the new
// one is warm. Routes themselves are never warmed.
func (p *Session) gated(k content.Kind, now time.Time) bool {
	if p.behind(content.EDS) && !p.types[content.EDS].overdue(now) {
		return true
	}
	s := &p.types[content.CDS]
	if (!s.pending || s.overdue(now)) && !p.behind(content.CDS) {
		return false
	}
	update := p.update(k, p.target(k))
	return update != nil && (s.accepted == nil || p.share.References(update, p.share.Added(s.accepted, p.clusters())))
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
	if p.reconnect.Waits() {
		wake = earliest(now, wake, p.reconnect.Until)
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
