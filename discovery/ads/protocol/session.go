package protocol

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// Session decides the responses of one stream. It is plain state without I/O; one goroutine at a time uses it.
type Session struct {
	variant    content.Variant
	share      *content.Share    // of the newest generation
	latest     *content.Snapshot // newest
	rollout    *content.Snapshot // the state to which clusters, listeners and routes are being brought
	types      [content.Kinds]subscription
	nonces     int
	fault      error                     // the client has requested too much; its next request ends the stream
	heard      time.Time                 // when the last request came
	references [content.Kinds]references // from listeners and routes
	mesh       MeshState
	reconnect  reconnection
}

// New returns the session of a new stream. first is the newest state, sh the share of its generation, and w the state
// of its mesh.
func New(v content.Variant, first *content.Snapshot, sh *content.Share, w MeshState) *Session {
	return &Session{variant: v, share: sh, latest: first, rollout: first, mesh: w}
}

// update returns the difference of k that Envoy must receive. If Envoy has subscribed to clusters, endpoints that no
// longer exist are removed with the cluster that named them, which is the better order. Secrets that no longer exist
// stay in use.
func (p *Session) update(k content.Kind, want *content.Set) *content.Update {
	s := &p.types[k]
	return p.share.Answer(content.Question{
		Had: s.sent, Want: want, Due: s.due, Variant: p.variant, Wildcard: s.wildcard,
		Gone: p.variant == content.Delta && k != content.SDS && !(k == content.EDS && p.types[content.CDS].asked),
	})
}

// State returns all resources of k. Endpoints, secrets and names take no part in a rollout: they are always the newest.
func (p *Session) State(k content.Kind) *content.Set {
	if k == content.EDS || k.Asked() {
		return p.latest[k]
	}
	return p.rollout[k]
}

// target returns the resources of k that Envoy should have now. Clusters that no longer exist stay until listeners and
// routes that may still refer to them have been replaced and accepted.
func (p *Session) target(k content.Kind) *content.Set {
	s := &p.types[k]
	want := s.withheld(s.wanted(p.State(k), p.share), p.share)
	if k == content.CDS && s.sent != nil && s.sent != want {
		want = p.withReferenced(want)
	}
	return want
}

// behind reports whether Envoy has not been sent the state of k.
func (p *Session) behind(k content.Kind) bool {
	s := &p.types[k]
	return s.asked && (s.greet || s.hasChanges() || p.update(k, p.target(k)) != nil)
}

// settled reports whether Envoy has accepted the latest state of k.
func (p *Session) settled(k content.Kind) bool {
	s := &p.types[k]
	return !s.asked || !s.pending && !s.nacked && !p.behind(k)
}

// references holds the clusters that existed when listeners or routes were sent: the listeners or routes refer to no
// others.
type references struct {
	accepted *content.Set // with the last response that it accepted
	answered *content.Set // with the last response that it answered: of a refused one Envoy may apply a part
	sent     *content.Set // with the last response that it was sent
}

// clusters returns the clusters of the rollout.
func (p *Session) clusters() *content.Set {
	return p.types[content.CDS].wanted(p.State(content.CDS), p.share)
}

// withReferenced returns want, and the clusters to which listeners and routes of Envoy may still refer. It returns the
// set that Envoy has where that is equal.
func (p *Session) withReferenced(want *content.Set) *content.Set {
	sent, both := p.types[content.CDS].sent, want
	for _, k := range []content.Kind{content.LDS, content.RDS} {
		if p.settled(k) {
			continue
		}
		for _, referenced := range []*content.Set{p.references[k].accepted, p.references[k].answered, p.references[k].sent} {
			if referenced != nil && referenced != want {
				both = p.share.Union(both, referenced)
			}
		}
	}
	if both != want && both != sent && both.Size() == sent.Size() && p.share.ChangedNames(sent, both) == nil {
		return sent
	}
	return both
}

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
		p.reconnected(k, now)
		return
	}
	s.sent, s.accepted, s.version, s.acked = want, want, version, version
}

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
	p.reconnected(k, now)
	if k == content.CDS { // the clusters that listeners and routes name are not known
		p.references[content.LDS].accepted, p.references[content.RDS].accepted = had, had
	}
}
