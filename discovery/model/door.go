package model

import (
	"maps"
	"net/netip"
	"strings"
)

// Doors are the addresses, and names, with ports at which discovery admits callers by their certificates: its listeners and, if one of them is
// an endpoint of a registry's service in the root namespace, that service and its other endpoints. A proxy that shows a certificate of the
// mesh there would lend its identity to its clients (docs/design/045).
type Doors struct{ at map[door]bool }

type door struct {
	host string // an address, or a name in lower case
	port uint32
}

// Lead reports whether an address or a name with a port is discovery's.
func (d *Doors) Lead(host string, port uint32) bool {
	return d != nil && d.at[door{doorHost(host), port}]
}

func doorHost(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// indexDoors finds them. They are the same pointer as in last while they are the same.
func (m *Mesh) indexDoors(last *Mesh) {
	own := map[door]bool{}
	for text := range strings.SplitSeq(m.settings.Listeners, ",") {
		if at, err := netip.ParseAddrPort(text); err == nil {
			own[door{at.Addr().Unmap().String(), uint32(at.Port())}] = true
		}
	}
	if len(own) == 0 {
		return
	}
	all := &Doors{maps.Clone(own)}
	for _, s := range m.services {
		if s.Registry == "" || s.Namespace != m.settings.RootNamespace() {
			continue // a tenant's service cannot make another's endpoint discovery's
		}
		for _, p := range s.Ports {
			if !(&Doors{own}).leadsTo(s, p) {
				continue
			}
			for _, e := range s.Endpoints {
				all.at[door{doorHost(e.Address), e.PortOn(p)}] = true
			}
			all.at[door{doorHost(s.Host), p.Number}] = true
			for _, address := range s.Addresses {
				all.at[door{doorHost(address), p.Number}] = true
			}
			for _, addresses := range s.ClusterAddresses {
				for _, address := range addresses {
					all.at[door{doorHost(address), p.Number}] = true
				}
			}
		}
	}
	if last != nil && last.settings.Doors != nil && maps.Equal(last.settings.Doors.at, all.at) {
		all = last.settings.Doors
	}
	m.settings.Doors = all
}

// leadsTo reports whether an endpoint of a service is one of them.
func (d *Doors) leadsTo(s *Service, p Port) bool {
	for _, e := range s.Endpoints {
		if d.Lead(e.Address, e.PortOn(p)) {
			return true
		}
	}
	return false
}

// movesDoors reports whether a service of which only endpoints change may be discovery's.
func (m *Mesh) movesDoors(was, now *Service) bool {
	if m.settings.Doors == nil || now.Registry == "" || now.Namespace != m.settings.RootNamespace() {
		return false
	}
	for _, p := range now.Ports {
		if m.settings.Doors.leadsTo(was, p) || m.settings.Doors.leadsTo(now, p) {
			return true
		}
	}
	return false
}

// leadToDoors adds a note to each ServiceEntry and registered service of a tenant that leads to discovery.
func (j *judge) leadToDoors() {
	d := j.mesh.settings.Doors
	if d == nil {
		return
	}
	for _, s := range j.mesh.services {
		if s.Namespace == j.mesh.settings.RootNamespace() {
			continue
		}
		for _, p := range s.Ports {
			if d.leadsTo(s, p) {
				j.note(LocalEndpoint, j.declaredBy(s), "endpoints", "of %s: port %d leads to discovery: no proxy that shows a certificate of the mesh there gets such an endpoint", s.Host, p.Number)
			}
		}
	}
}
