package model

import (
	"net/netip"
	"slices"
)

// indexWorkloads indexes services by the addresses of their endpoints: each proxy looks up its own addresses in every
// generation.
func (m *Mesh) indexWorkloads() {
	m.byAddress = make(map[netip.Addr][]*Service, len(m.services))
	m.local = map[*Service]bool{}
	for _, s := range m.services {
		for _, e := range s.Endpoints {
			ip, err := netip.ParseAddr(e.Address)
			if err != nil { // a DNS name
				if localName(e.Address) != NotLocal {
					m.local[s] = true
				}
				continue
			}
			if localIP(ip) != NotLocal {
				m.local[s] = true
			}
			if ip = ip.Unmap(); len(m.byAddress[ip]) == 0 || m.byAddress[ip][len(m.byAddress[ip])-1] != s {
				m.byAddress[ip] = append(m.byAddress[ip], s)
			}
		}
	}
}

// ServicesAt returns the services that have an endpoint at one of these addresses, which are not IPv4-mapped, in the
// order of the mesh.
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
				return err == nil && own.Unmap() == ip
			}) {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, (*Service).byRight)
	return slices.Compact(out)
}

// HasLocal reports whether a service of the mesh has an endpoint at an address that is local to the proxy that dials it.
// Without one, the endpoints that proxies get depend neither on their namespaces nor on their own addresses.
func (m *Mesh) HasLocal(s *Service) bool { return m.local[s] }

// ForeignAt reports whether a proxy's own address is an endpoint that the proxy may not have: one of a service of
// another namespace, at a gateway at any port, at a sidecar at a port of its agent.
func (m *Mesh) ForeignAt(address netip.Addr, namespace string, gateway bool, own OwnPorts) bool {
	return slices.ContainsFunc(m.ServicesAt(address), func(s *Service) bool {
		return s.Namespace != namespace && (gateway || slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool {
			ip, err := netip.ParseAddr(e.Address)
			return err == nil && ip.Unmap() == address && slices.ContainsFunc(s.Ports, func(p Port) bool {
				return m.settings.AgentPort(e.PortOn(p), own)
			})
		}))
	})
}
