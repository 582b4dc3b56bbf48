package model

import "reflect"

// bareService is a service without its endpoints, which change most. While only its endpoints change, it is the same
// pointer in the next generation, and a value that is made of it cannot read endpoints.
type bareService struct {
	service *Service // it is this one without endpoints, or one that only had other endpoints
	bare    *Service
}

// indexBareServices reuses those of last that did not change.
func (m *Mesh) indexBareServices(last *Mesh) {
	m.bareServices = make(map[serviceKey]bareService, len(m.services))
	for _, s := range m.services {
		var known bareService
		if last != nil {
			known = last.bareServices[s.key()]
		}
		if known.service != s {
			plain := *s
			plain.Endpoints, plain.Origin = nil, Origin{}
			if known.bare == nil || !reflect.DeepEqual(&plain, known.bare) {
				known.bare = &plain
			}
			known.service = s
		}
		m.bareServices[s.key()] = known
	}
}

func (m *Mesh) bare(s *Service) *Service {
	if s == nil {
		return nil
	}
	return m.bareServices[s.key()].bare
}
