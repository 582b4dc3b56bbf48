package ads

import "time"

// reliance is which clusters there were when listeners or routes were sent: what Envoy uses of those leads to no others.
type reliance struct {
	accepted *set // with what it accepted last
	answered *set // with what it answered last: of a response that is refused Envoy may take a part
	sent     *set // with what it was sent last
}

// clusters are those of the rollout.
func (p *protocol) clusters() *set { return p.types[cds].wanted(p.state(cds), p.share) }

// answered takes Envoy's answer to the last response of k.
func (p *protocol) answered(k kind, refusal string, now time.Time) *Nack {
	s, relied := &p.types[k], &p.relied[k]
	waited := s.pending
	nack := s.answered(refusal, now)
	if waited {
		switch i := s.isolation; {
		case nack != nil && p.isolate(k, refusal, now):
			s.sent, s.due = s.accepted, nil // of what is refused it may have taken nothing: that is told again
		case nack == nil && i != nil && i.order != nil:
			i.answered(true, s.good(p.share))
		case nack == nil && i != nil:
			i.trials = 0
		}
		relied.answered = relied.sent
		if nack == nil {
			relied.accepted = relied.sent
		}
	}
	return nack
}

// withRelied returns clusters and those to which listeners and routes may still lead that Envoy has. It is what Envoy has
// where that is all of it.
func (p *protocol) withRelied(want *set) *set {
	sent, both := p.types[cds].sent, want
	for _, k := range []kind{lds, rds} {
		if p.settled(k) {
			continue
		}
		for _, relied := range []*set{p.relied[k].accepted, p.relied[k].answered, p.relied[k].sent} {
			if relied != nil && relied != want {
				both = p.share.union(both, relied)
			}
		}
	}
	if both != want && both != sent && both.size() == sent.size() && p.share.changedNames(sent, both) == nil {
		return sent
	}
	return both
}

// rely notes that listeners and routes which Envoy has accepted lead to clusters of the rollout only.
func (p *protocol) rely() {
	for _, k := range []kind{lds, rds} {
		if s := &p.types[k]; s.asked && p.settled(k) {
			now := p.clusters()
			p.relied[k] = reliance{now, now, now}
		}
	}
}
