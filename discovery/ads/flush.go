package ads

import (
	"errors"
	"strconv"
	"time"
)

// flush returns the responses that may be sent now; the others follow Envoy's answers. A rollout is finished before the next begins: if clusters were
// always brought to the newest state first, endless changes would starve the routes, which come last. A rollout whose
// clusters are still to be sent has not begun.
func (p *protocol) flush(now time.Time) []response {
	for k := range kinds {
		if s := &p.types[k]; s.mayApply(now) {
			p.fault = errors.Join(p.fault, s.apply(k, p.share, now))
		}
		p.skipTrials(k)
	}
	if p.behind(cds) || !p.behind(lds) && !p.behind(rds) {
		p.rollout = p.latest // else endpoints, which are always the newest, would overtake clusters
	}
	var out []response
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
func (p *protocol) step(out []response, now time.Time) []response {
	for _, k := range order() {
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
func (p *protocol) next(k kind, now time.Time) (response, bool) {
	s, want := &p.types[k], p.target(k)
	update := p.news(k, want)
	if update == nil && s.greet {
		update = &news{}
	}
	old := s.sent
	s.sent, s.due, s.greet = want, nil, false
	if update == nil {
		if s.accepted == old {
			s.accepted = want // the same content; this frees the older value
		}
		return response{}, false
	}
	switch k {
	case cds:
		p.types[eds].rewarm(old, want, p.share)
	case lds, rds:
		p.references[k].sent = p.clusters()
	}
	p.nonces++
	if !s.pending {
		s.since = now
	}
	s.nonce, s.version, s.at, s.again, s.pending, s.nacked = strconv.Itoa(p.nonces), want.version, now, s.pending, true, false
	return response{p.variant, k, s.nonce, s.version, update}, true
}

// renew makes latest the state to be reached, by the next request or flush.
func (p *protocol) renew(latest *snapshot, sh *share) { p.latest, p.share = latest, sh }

// resetReferences notes that the listeners and routes that Envoy has accepted refer to clusters of the rollout only.
func (p *protocol) resetReferences() {
	for _, k := range []kind{lds, rds} {
		if s := &p.types[k]; s.asked && p.settled(k) {
			now := p.clusters()
			p.references[k] = references{now, now, now}
		}
	}
}
