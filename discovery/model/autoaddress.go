package model

import (
	"cmp"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
)

// A service without an address of its own gets one of 240.240.0.0/16 and one of 2001:2::f0f0:0/112, as in Istio, for
// proxies that answer DNS: two services of bytes on one port are then told apart. Nothing routes these addresses; they
// are dialled and taken inside one pod. They follow from the mesh alone, so that replicas agree: where a service is in
// the range follows from its name; of two in one place the older has it, and the other takes the next that is free.
const (
	autoPlaces = 256 * autoInNet // 240.240.0.1 to 240.240.255.254
	autoInNet  = 254             // less the first and the last of each /24, which programs may take for special
)

// AutoAddresses returns the addresses that stand for a service without one, in both families; false where it has none:
// wildcards, headless services, and those whose destination only the dialled address tells.
func (m *Mesh) AutoAddresses(s *Service) (four, six netip.Addr, ok bool) {
	place, ok := m.places[s.key()]
	if !ok {
		return four, six, false
	}
	third, fourth := byte(place/autoInNet), byte(place%autoInNet+1)
	four = netip.AddrFrom4([4]byte{240, 240, third, fourth})
	six = netip.AddrFrom16([16]byte{0x20, 0x01, 0x00, 0x02, 12: 0xf0, 13: 0xf0, 14: third, 15: fourth})
	return four, six, true
}

// AutoAddresses is that of the mesh.
func (s *Scope) AutoAddresses(service *Service) (four, six netip.Addr, ok bool) {
	return s.mesh.AutoAddresses(service)
}

// placesOf are the places of services, those of m where nothing counts that differs.
func (m *Mesh) placesOf(services []*Service) map[serviceKey]int {
	if m != nil && slices.EqualFunc(m.services, services, func(a, b *Service) bool {
		return a == b || a.key() == b.key() && a.Created.Equal(b.Created) && sameAddresses(a, b) &&
			a.lacksAddress() == b.lacksAddress()
	}) {
		return m.places
	}
	return placed(services)
}

// lacksAddress reports whether a service gets one.
func (s *Service) lacksAddress() bool {
	return len(s.Addresses) == 0 && !s.Headless && !IsWildcard(s.Host) && s.Resolution != ResolutionNone && !isAddress(s.Host)
}

// placed are the places of the services that get an address.
func placed(services []*Service) map[serviceKey]int {
	taken := map[int]bool{}
	var wanting []*Service
	for _, s := range services {
		for _, addresses := range append(slices.Collect(maps.Values(s.ClusterAddresses)), s.Addresses) {
			for _, a := range addresses {
				if place, ok := placeOf(a); ok {
					taken[place] = true
				}
			}
		}
		if s.lacksAddress() {
			wanting = append(wanting, s)
		}
	}
	slices.SortFunc(wanting, func(a, b *Service) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Host, b.Host))
	})
	out := make(map[serviceKey]int, len(wanting))
	for _, s := range wanting {
		if len(taken) >= autoPlaces {
			break
		}
		h := fnv.New64a()
		h.Write([]byte(s.Namespace + "/" + s.Host))
		place := int(h.Sum64() % autoPlaces)
		for taken[place] {
			place = (place + 1) % autoPlaces
		}
		taken[place], out[s.key()] = true, place
	}
	return out
}

// placeOf is the place of an address that somebody gave a service in the range.
func placeOf(address string) (int, bool) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return 0, false
	}
	b := ip.AsSlice()
	switch {
	case ip.Is4() && b[0] == 240 && b[1] == 240:
	case ip.Is6() && netip.MustParsePrefix("2001:2::f0f0:0/112").Contains(ip):
		b = b[12:]
	default:
		return 0, false
	}
	return int(b[2])*autoInNet + int(b[3]) - 1, b[3] > 0 && b[3] < 255
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
