package protocol

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// Request handles a request of kind k. It returns the responses to send now, and the refusal that the request carries,
// if any. An error ends the stream.
func (p *Session) Request(k content.Kind, r *Request, now time.Time) ([]Response, *Nack, error) {
	p.heard = now
	if p.variant == content.Delta {
		return p.requestDelta(k, r, now)
	}
	s := &p.types[k]
	empties := s.named && r.Names == nil
	if s.nonce != "" && r.Nonce != s.nonce && !empties {
		return nil, nil, nil // overtaken by a response that Envoy has yet to answer
	}
	var nack *Nack
	if r.Nonce == s.nonce {
		nack = p.answered(k, r.Refusal, now)
	}
	s.replace(k, r.Names, p.share)
	if empties {
		s.forget()
	}
	if !s.asked {
		s.asked = true
		p.resume(k, r.version, now)
	}
	return p.Flush(now), nack, nil
}

// resume avoids sending a reconnecting Envoy what it has already: the version in its first request shows that.
func (p *Session) resume(k content.Kind, version string, now time.Time) {
	s := &p.types[k]
	if version == "" || s.rewarmed {
		return
	}
	want := s.wanted(p.State(k), p.share)
	if version != want.Version {
		p.returns(k, now)
		return
	}
	s.sent, s.accepted, s.version, s.acked = want, want, version, version
}
