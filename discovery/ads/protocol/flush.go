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
	return p.respond(k, want.Version, update, now), true
}

// greetOnly answers the first wildcard subscription of a client that keeps what it has: nothing has changed. Without an answer
// discovery would look dead to it.
func (p *Session) greetOnly(k content.Kind, now time.Time) (Response, bool) {
	s := &p.types[k]
	if !s.greet || s.sent == nil {
		return Response{}, false
	}
	s.greet = false
	return p.respond(k, s.sent.Version, &content.News{}, now), true
}

// respond records a response that is sent now.
func (p *Session) respond(k content.Kind, version string, news *content.News, now time.Time) Response {
	s := &p.types[k]
	p.nonces++
	if !s.pending {
		s.since = now
	}
	s.nonce, s.version, s.at, s.again, s.pending, s.nacked = strconv.Itoa(p.nonces), version, now, s.pending, true, false
	return Response{p.variant, k, s.nonce, s.version, news}
}

// Renew makes latest the state to be reached, by the next request or flush.
func (p *Session) Renew(latest *content.Snapshot, sh *content.Share, w World) {
	p.latest, p.share, p.world = latest, sh, w
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
