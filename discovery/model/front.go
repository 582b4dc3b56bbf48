package model

import "reflect"

// front is a service without what changes most, its endpoints. The front of a service whose endpoints alone change is
// the same pointer in the next generation, and what is made of it cannot read endpoints.
type front struct {
	service *Service // it is the front of this one, or of one that only has other endpoints
	front   *Service
}

// indexFronts takes over from last the fronts that did not change.
func (m *Mesh) indexFronts(last *Mesh) {
	m.fronts = make(map[serviceKey]front, len(m.services))
	for _, s := range m.services {
		var known front
		if last != nil {
			known = last.fronts[s.key()]
		}
		if known.service != s {
			plain := *s
			plain.Endpoints, plain.Origin = nil, Origin{}
			if known.front == nil || !reflect.DeepEqual(&plain, known.front) {
				known.front = &plain
			}
			known.service = s
		}
		m.fronts[s.key()] = known
	}
}

func (m *Mesh) front(s *Service) *Service {
	if s == nil {
		return nil
	}
	return m.fronts[s.key()].front
}
