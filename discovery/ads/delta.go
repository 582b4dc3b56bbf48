package ads

import (
	"time"
)

// requestDelta handles a request of the delta variant: names to subscribe and unsubscribe, and perhaps an answer to the
// last response. A subscription takes effect with any nonce.
func (p *protocol) requestDelta(k kind, r *request, now time.Time) ([]response, *Nack, error) {
	s := &p.types[k]
	var nack *Nack
	if r.nonce != "" && r.nonce == s.nonce {
		nack = p.answered(k, r.refusal, now)
	}
	if err := s.changes.add(r.names, r.unsubscribe, p.share); err != nil {
		return nil, nil, err
	}
	if !s.asked {
		s.asked = true
		s.wildcard = k.whole() && r.names == nil
		if err := s.apply(k, p.share, now); err != nil {
			return nil, nil, err
		}
		s.greet = s.wildcard
		p.resumeDelta(k, r)
	}
	responses := p.flush(now)
	return responses, nack, p.fault
}

// resumeDelta avoids sending a reconnecting Envoy the resources that it has already. Envoy names a version for each of
// them; the server names those that no longer exist.
func (p *protocol) resumeDelta(k kind, r *request) {
	s := &p.types[k]
	if r.initial.empty() || s.rewarmed {
		return
	}
	want := s.wanted(p.state(k), p.share)
	had := p.share.resume(want, r.initial, s.wildcard)
	if had == want {
		s.sent, s.accepted, s.version, s.acked = want, want, want.version, want.version
		return
	}
	s.sent, s.accepted = had, had
	if k == cds { // the clusters that listeners and routes name are not known
		p.references[lds].accepted, p.references[rds].accepted = had, had
	}
}
