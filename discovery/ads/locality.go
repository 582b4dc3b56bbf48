package ads

import (
	"github.com/pilotlight/pilotlight/discovery/model"
)

// residence finds the locality of a proxy whose node sends none: that of its own workload, which may come later, and move.
type residence struct {
	claim     model.Claim
	owner     string           // in viewers
	residents *model.Residents // as they were looked up last
}

// find returns the locality in a mesh. It returns false if it cannot be another one than at the last call.
func (p *residence) find(m *model.Mesh) (model.Locality, bool) {
	now := m.Residents(p.claim.Namespace)
	if now == p.residents {
		return model.Locality{}, false
	}
	p.residents = now
	found, _ := now.Whereabouts(p.claim)
	return found, true
}

// source returns where the locality comes from, or why there is none; for no place, the node.
func (p *residence) source() string {
	if p == nil {
		return "node"
	}
	_, source := p.residents.Whereabouts(p.claim)
	return source
}
