package model

import "maps"

// Clients of a headless service dial an instance's address as soon as DNS has it, which may be before discovery has the instance. While a
// service has none, the last ones say what its instances are like. A restart of discovery forgets them.

// Departed returns the endpoints that a headless service without any had last.
func (m *Mesh) Departed(s *Service) []Endpoint {
	if !s.Headless || len(s.Endpoints) > 0 {
		return nil
	}
	return m.departed[s.key()]
}

// indexDeparted remembers the last endpoints of headless services that have none any more.
func (m *Mesh) indexDeparted(last *Mesh) {
	for _, s := range m.services {
		if !s.Headless || len(s.Endpoints) > 0 {
			continue
		}
		had := last.departed[s.key()]
		for _, was := range last.claims(s.Host) {
			if was.Namespace == s.Namespace && len(was.Endpoints) > 0 {
				had = was.Endpoints
			}
		}
		if len(had) > 0 {
			if m.departed == nil {
				m.departed = map[serviceKey][]Endpoint{}
			}
			m.departed[s.key()] = had
		}
	}
}

// depart does the same for one service of a small change.
func (m *Mesh) depart(was, s *Service) {
	if s.Headless && len(s.Endpoints) == 0 && len(was.Endpoints) > 0 {
		if m.departed = maps.Clone(m.departed); m.departed == nil {
			m.departed = map[serviceKey][]Endpoint{}
		}
		m.departed[s.key()] = was.Endpoints
	}
}
