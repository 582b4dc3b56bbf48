package model

import (
	"cmp"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
)

// A service without an address of its own gets one address of 240.240.0.0/16 and one of 2001:2::f0f0:0/112, as in
// Istio. Proxies that answer DNS use them to distinguish two TCP services on the same port. No network routes these
// addresses: a program connects to one, and the sidecar of the same pod intercepts the connection. The addresses depend
// on the mesh alone, so that all replicas compute the same ones: the hash of the service's name selects its place in
// the range. If two services have the same place, the older one gets it, and the other one gets the next free place.
const (
	autoPlaces = 256 * autoInNet // 240.240.0.1 to 240.240.255.254
	autoInNet  = 254             // without the first and the last address of each /24, which programs may treat as special
)

// AutoAddresses returns the automatic IPv4 and IPv6 address of a service. ok is false for services that get none: those
// with an address of their own, wildcards, headless services, hosts that are IP addresses, services with resolution
// NONE, and the youngest services if the range is full.
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

// AutoAddresses returns the same as the method of the mesh.
func (s *Scope) AutoAddresses(service *Service) (four, six netip.Addr, ok bool) {
	return s.mesh.AutoAddresses(service)
}

// placesOf returns the places of services. It returns those of m if nothing changed that affects them.
func (m *Mesh) placesOf(services []*Service) map[serviceKey]int {
	if slices.EqualFunc(m.services, services, func(a, b *Service) bool {
		return a == b || a.key() == b.key() && a.Created.Equal(b.Created) && sameAddresses(a, b) &&
			a.lacksAddress() == b.lacksAddress()
	}) {
		return m.places
	}
	return placed(services)
}

// lacksAddress reports whether a service gets automatic addresses.
func (s *Service) lacksAddress() bool {
	return len(s.Addresses) == 0 && !s.Headless && !IsWildcard(s.Host) && s.Resolution != ResolutionNone && !isAddress(s.Host)
}

// placed computes the places of the services that get automatic addresses.
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

// placeOf returns the place in the range of an address that a service was given explicitly.
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
