package ads

import "time"

// references holds the clusters that existed when listeners or routes were sent: the listeners or routes refer to no
// others.
type references struct {
	accepted *set // with the last response that it accepted
	answered *set // with the last response that it answered: of a refused one Envoy may apply a part
	sent     *set // with the last response that it was sent
}

// clusters returns the clusters of the rollout.
func (p *protocol) clusters() *set { return p.types[cds].wanted(p.state(cds), p.share) }

// answered applies Envoy's ACK or NACK of the last response of k.
func (p *protocol) answered(k kind, refusal string, now time.Time) *Nack {
	s, references := &p.types[k], &p.references[k]
	waited := s.pending
	nack := s.answered(refusal, now)
	if waited {
		switch i := s.isolation; {
		case nack != nil && p.isolate(k, refusal, now):
			s.sent, s.due = s.accepted, nil // it may have applied nothing of a refused response: that is sent again
		case nack == nil && i != nil && i.order != nil:
			i.answered(true, s.good(p.share))
		case nack == nil && i != nil:
			i.trials = 0
		}
		references.answered = references.sent
		if nack == nil {
			references.accepted = references.sent
		}
	}
	return nack
}

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

// resetReferences notes that the listeners and routes that Envoy has accepted refer to clusters of the rollout only.
func (p *protocol) resetReferences() {
	for _, k := range []kind{lds, rds} {
		if s := &p.types[k]; s.asked && p.settled(k) {
			now := p.clusters()
			p.references[k] = references{now, now, now}
		}
	}
}
