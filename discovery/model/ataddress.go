package model

import (
	"maps"
	"net/netip"
	"slices"
)

// indexWorkloads indexes services by the addresses of their endpoints: each proxy looks up its own addresses in every
// generation. The index has the services without endpoints (see bareService), so a change of an endpoint changes it at
// two addresses.
func (m *Mesh) indexWorkloads() {
	endpoints := 0
	for _, s := range m.services {
		endpoints += len(s.Endpoints)
	}
	m.byAddress = partsFor[netip.Addr, []*Service](endpoints)
	m.local = map[*Service]bool{}
	for _, s := range m.services {
		bare := m.bare(s)
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
			ip = ip.Unmap()
			if at := m.byAddress.get(ip); len(at) == 0 || at[len(at)-1] != bare {
				m.byAddress.put(ip, append(at, bare))
			}
		}
	}
}

// moveEndpoints corrects what is made of the endpoints of a service that change.
func (m *Mesh) moveEndpoints(before, now *Service) {
	local := slices.ContainsFunc(now.Endpoints, func(e Endpoint) bool { return LocalAddress(e.Address) != NotLocal })
	if local || m.local[before] {
		m.local = maps.Clone(m.local)
		if delete(m.local, before); local {
			m.local[now] = true
		}
	}
	m.bareServices = m.bareServices.with([]serviceKey{now.key()}, func(_ serviceKey, known bareService) (bareService, bool) {
		return bareService{now, known.bare}, true
	})
	gone, come := movedAddresses(before.Endpoints, now.Endpoints)
	changed := slices.AppendSeq(slices.Collect(maps.Keys(gone)), maps.Keys(come))
	bare := m.bare(now)
	m.byAddress = m.byAddress.with(changed, func(ip netip.Addr, at []*Service) ([]*Service, bool) {
		if gone[ip] {
			at = slices.DeleteFunc(slices.Clone(at), func(s *Service) bool { return s == bare })
		} else {
			at = append(slices.Clip(at), bare)
			slices.SortFunc(at, (*Service).byRight)
		}
		return at, len(at) > 0
	})
}

// movedAddresses returns the IP addresses that only the first or only the second list of endpoints has. Most of them mostly have
// the same beginning and the same end, which are read only to see that they do not have the other addresses.
func movedAddresses(was, is []Endpoint) (gone, come map[netip.Addr]bool) {
	begin, end := 0, 0
	for begin < min(len(was), len(is)) && was[begin].Address == is[begin].Address {
		begin++
	}
	for end < min(len(was), len(is))-begin && was[len(was)-1-end].Address == is[len(is)-1-end].Address {
		end++
	}
	gone, come = ips(was[begin:len(was)-end]), ips(is[begin:len(is)-end])
	for ip := range gone {
		if come[ip] {
			delete(gone, ip)
			delete(come, ip)
		}
	}
	for _, both := range [][]Endpoint{was[:begin], was[len(was)-end:]} {
		for i := 0; i < len(both) && len(gone)+len(come) > 0; i++ {
			if ip, err := netip.ParseAddr(both[i].Address); err == nil {
				delete(gone, ip.Unmap())
				delete(come, ip.Unmap())
			}
		}
	}
	return gone, come
}

// ips returns the IP addresses of endpoints, not IPv4-mapped.
func ips(endpoints []Endpoint) map[netip.Addr]bool {
	out := make(map[netip.Addr]bool, len(endpoints))
	for _, e := range endpoints {
		if ip, err := netip.ParseAddr(e.Address); err == nil {
			out[ip.Unmap()] = true
		}
	}
	return out
}

// ServicesAt returns the services that have an endpoint at one of these addresses, which are not IPv4-mapped, in the
// order of the mesh.
func (m *Mesh) ServicesAt(addresses ...netip.Addr) []*Service {
	var out []*Service
	for _, ip := range addresses {
		for _, bare := range m.byAddress.get(ip) {
			claims := m.claims(bare.Host)
			out = append(out, claims[slices.IndexFunc(claims, func(s *Service) bool { return s.Namespace == bare.Namespace })])
		}
	}
	if len(addresses) > 1 {
		slices.SortFunc(out, (*Service).byRight)
		out = slices.Compact(out)
	}
	return out
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
