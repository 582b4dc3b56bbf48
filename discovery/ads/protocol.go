package ads

import (
	"time"
)

// protocol decides the responses of one stream. It is plain state without I/O; one goroutine at a time uses it.
type protocol struct {
	variant    variant
	share      *share    // of the newest generation
	latest     *snapshot // newest
	rollout    *snapshot // the state to which clusters, listeners and routes are being brought
	types      [kinds]subscription
	nonces     int
	fault      error             // the client has requested too much; its next request ends the stream
	heard      time.Time         // when the last request came
	references [kinds]references // from listeners and routes
}

func newProtocol(v variant, first *snapshot, sh *share) *protocol {
	return &protocol{variant: v, share: sh, latest: first, rollout: first}
}

// news returns the difference of k that Envoy must receive. If Envoy has subscribed to clusters, endpoints that no
// longer exist are removed with the cluster that named them, which is the better order. Secrets that no longer exist
// stay in use.
func (p *protocol) news(k kind, want *set) *news {
	s := &p.types[k]
	return p.share.answer(question{
		had: s.sent, want: want, due: s.due, variant: p.variant, wildcard: s.wildcard,
		gone: p.variant == delta && k != sds && !(k == eds && p.types[cds].asked),
	})
}

// state returns all resources of k. Endpoints, secrets and names take no part in a rollout: they are always the newest.
func (p *protocol) state(k kind) *set {
	if k == eds || k.asked() {
		return p.latest[k]
	}
	return p.rollout[k]
}

// target returns the resources of k that Envoy should have now. Clusters that no longer exist stay until listeners and
// routes that may still refer to them have been replaced and accepted.
func (p *protocol) target(k kind) *set {
	s := &p.types[k]
	want := s.withheld(s.wanted(p.state(k), p.share), p.share)
	if k == cds && s.sent != nil && s.sent != want {
		want = p.withReferenced(want)
	}
	return want
}

// behind reports whether Envoy has not been sent the state of k.
func (p *protocol) behind(k kind) bool {
	s := &p.types[k]
	return s.asked && (s.greet || s.hasChanges() || p.news(k, p.target(k)) != nil)
}

// settled reports whether Envoy has accepted the latest state of k.
func (p *protocol) settled(k kind) bool {
	s := &p.types[k]
	return !s.asked || !s.pending && !s.nacked && !p.behind(k)
}

// references holds the clusters that existed when listeners or routes were sent: the listeners or routes refer to no
// others.
type references struct {
	accepted *set // with the last response that it accepted
	answered *set // with the last response that it answered: of a refused one Envoy may apply a part
	sent     *set // with the last response that it was sent
}

// clusters returns the clusters of the rollout.
func (p *protocol) clusters() *set { return p.types[cds].wanted(p.state(cds), p.share) }

// withReferenced returns want, and the clusters to which listeners and routes of Envoy may still refer. It returns the set that
// Envoy has where that is equal.
func (p *protocol) withReferenced(want *set) *set {
	sent, both := p.types[cds].sent, want
	for _, k := range []kind{lds, rds} {
		if p.settled(k) {
			continue
		}
		for _, referenced := range []*set{p.references[k].accepted, p.references[k].answered, p.references[k].sent} {
			if referenced != nil && referenced != want {
				both = p.share.union(both, referenced)
			}
		}
	}
	if both != want && both != sent && both.size() == sent.size() && p.share.changedNames(sent, both) == nil {
		return sent
	}
	return both
}
