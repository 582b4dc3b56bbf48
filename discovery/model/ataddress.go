package model

import (
	"net/netip"
	"slices"
)

// indexWorkloads indexes services by the addresses of their endpoints: each proxy looks up its own addresses in every
// generation.
func (m *Mesh) indexWorkloads() {
	m.byAddress = make(map[netip.Addr][]*Service, len(m.services))
	for _, s := range m.services {
		for _, e := range s.Endpoints {
			ip, err := netip.ParseAddr(e.Address)
			if err != nil {
				continue // a DNS name
			}
			if at := m.byAddress[ip]; len(at) == 0 || at[len(at)-1] != s {
				m.byAddress[ip] = append(at, s)
			}
		}
	}
}

// ServicesAt returns the services that have an endpoint at one of these addresses, in the order of the mesh.
func (m *Mesh) ServicesAt(addresses ...netip.Addr) []*Service {
	if len(addresses) == 1 && len(m.moved) == 0 {
		return m.byAddress[addresses[0]]
	}
	var out []*Service
	for _, ip := range addresses {
		for _, s := range m.byAddress[ip] {
			if m.moved[s.key()] == nil {
				out = append(out, s)
			}
		}
		for _, s := range m.moved {
			if slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool {
				own, err := netip.ParseAddr(e.Address)
				return err == nil && own == ip
			}) {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, (*Service).byRight)
	return slices.Compact(out)
}
