package ads

import (
	"time"
)

// request handles a request of kind k. It returns the responses to send now, and the refusal that the request carries,
// if any. An error ends the stream.
func (p *protocol) request(k kind, r *request, now time.Time) ([]response, *Nack, error) {
	p.heard = now
	if p.variant == delta {
		return p.requestDelta(k, r, now)
	}
	s := &p.types[k]
	empties := s.named && r.names == nil
	if s.nonce != "" && r.nonce != s.nonce && !empties {
		return nil, nil, nil // overtaken by a response that Envoy has yet to answer
	}
	var nack *Nack
	if r.nonce == s.nonce {
		nack = p.answered(k, r.refusal, now)
	}
	s.replace(k, r.names, p.share)
	if empties {
		s.forget()
	}
	if !s.asked {
		s.asked = true
		p.resume(k, r.version)
	}
	return p.flush(now), nack, nil
}

// resume avoids sending a reconnecting Envoy what it has already: the version in its first request shows that.
func (p *protocol) resume(k kind, version string) {
	s := &p.types[k]
	if version == "" || s.rewarmed {
		return
	}
	if want := s.wanted(p.state(k), p.share); version == want.version {
		s.sent, s.accepted, s.version, s.acked = want, want, version, version
	}
}
