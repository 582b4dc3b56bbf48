package protocol

import (
	"errors"
	"strconv"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// Flush returns the responses that may be sent now; the others follow Envoy's answers. A rollout is finished before the next begins: if clusters were
// always brought to the newest state first, endless changes would starve the routes, which come last. A rollout whose
// clusters are still to be sent has not begun.
func (p *Session) Flush(now time.Time) []Response {
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
	s, want := &p.types[k], p.target(k)
	update := p.news(k, want)
	if update == nil && s.greet {
		update = &content.News{}
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
	p.nonces++
	if !s.pending {
		s.since = now
	}
	s.nonce, s.version, s.at, s.again, s.pending, s.nacked = strconv.Itoa(p.nonces), want.Version, now, s.pending, true, false
	return Response{p.variant, k, s.nonce, s.version, update}, true
}

// Renew makes latest the state to be reached, by the next request or flush.
func (p *Session) Renew(latest *content.Snapshot, sh *content.Share) { p.latest, p.share = latest, sh }

// resetReferences notes that the listeners and routes that Envoy has accepted refer to clusters of the rollout only.
func (p *Session) resetReferences() {
	for _, k := range []content.Kind{content.LDS, content.RDS} {
		if s := &p.types[k]; s.asked && p.settled(k) {
			now := p.clusters()
			p.references[k] = references{now, now, now}
		}
	}
}
