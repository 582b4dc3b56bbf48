package protocol

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// requestDelta handles a request of the delta variant: names to subscribe and unsubscribe, and perhaps an answer to the
// last response. A subscription takes effect with any nonce.
func (p *Session) requestDelta(k content.Kind, r *Request, now time.Time) ([]Response, *Nack, error) {
	s := &p.types[k]
	var nack *Nack
	if r.Nonce != "" && r.Nonce == s.nonce {
		nack = p.answered(k, r.Refusal, now)
	}
	if err := s.changes.add(r.Names, r.unsubscribe, p.share); err != nil {
		return nil, nil, err
	}
	if !s.asked {
		s.asked = true
		s.wildcard = k.Whole() && r.Names == nil
		if err := s.apply(k, p.share, now); err != nil {
			return nil, nil, err
		}
		s.greet = s.wildcard
		p.resumeDelta(k, r, now)
	}
	responses := p.Flush(now)
	return responses, nack, p.fault
}

// resumeDelta avoids sending a reconnecting Envoy the resources that it has already. Envoy names a version for each of
// them; the server names those that no longer exist.
func (p *Session) resumeDelta(k content.Kind, r *Request, now time.Time) {
	s := &p.types[k]
	if r.initial.Empty() || s.rewarmed {
		return
	}
	want := s.wanted(p.State(k), p.share)
	had := p.share.Resume(want, r.initial, s.wildcard)
	if had == want {
		s.sent, s.accepted, s.version, s.acked = want, want, want.Version, want.Version
		return
	}
	s.sent, s.accepted = had, had
	p.returns(k, now)
	if k == content.CDS { // the clusters that listeners and routes name are not known
		p.references[content.LDS].accepted, p.references[content.RDS].accepted = had, had
	}
}
