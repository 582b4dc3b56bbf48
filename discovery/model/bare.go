package model

import "reflect"

// bareService is a service without its endpoints, which change most often. While only its endpoints change, bare is the
// same pointer in the next generation, and a value that is made from it cannot depend on endpoints.
type bareService struct {
	service *Service // the service with its endpoints; bare is a copy of it without endpoints
	bare    *Service
}

// indexBareServices reuses the bare services of last that did not change.
func (m *Mesh) indexBareServices(last *Mesh) {
	m.bareServices = partsFor[serviceKey, bareService](len(m.services))
	for _, s := range m.services {
		known := last.bareServices.get(s.key())
		if known.service != s {
			plain := *s
			plain.Endpoints, plain.Origin = nil, Origin{}
			if known.bare == nil || !reflect.DeepEqual(&plain, known.bare) {
				known.bare = &plain
			}
			known.service = s
		}
		m.bareServices.put(s.key(), known)
	}
}

func (m *Mesh) bare(s *Service) *Service {
	if s == nil {
		return nil
	}
	return m.bareServices.get(s.key()).bare
}
