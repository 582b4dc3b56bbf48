package model

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func autoMesh(services ...*Service) *Mesh {
	return New(slices.Values([]Group{{Services: services}}))
}

func autoOf(m *Mesh) map[string]string {
	out := map[string]string{}
	for _, s := range m.Services() {
		if four, _, ok := m.AutoAddresses(s); ok {
			out[s.Namespace+"/"+s.Host] = four.String()
		}
	}
	return out
}

// Which services get an automatic address.
func TestAutoAddressesAreForServicesWithoutOne(t *testing.T) {
	for name, test := range map[string]struct {
		service Service
		want    bool
	}{
		"STATIC":              {Service{Right: RightFull, Host: "a.com", Resolution: ResolutionStatic}, true},
		"DNS":                 {Service{Right: RightFull, Host: "a.com", Resolution: ResolutionDNS}, true},
		"DNS_ROUND_ROBIN":     {Service{Right: RightFull, Host: "a.com", Resolution: ResolutionDNSRoundRobin}, true},
		"NONE":                {Service{Right: RightFull, Host: "a.com", Resolution: ResolutionNone}, false},
		"wildcard":            {Service{Right: RightFull, Host: "*.a.com", Resolution: ResolutionStatic}, false},
		"headless":            {Service{Right: RightFull, Host: "a.com", Resolution: ResolutionStatic, Headless: true}, false},
		"an address":          {Service{Right: RightFull, Host: "a.com", Resolution: ResolutionStatic, Addresses: []string{"10.0.0.1"}}, false},
		"a range":             {Service{Right: RightFull, Host: "a.com", Resolution: ResolutionStatic, Addresses: []string{"10.0.0.0/8"}}, false},
		"an address for host": {Service{Right: RightFull, Host: "10.0.0.1", Resolution: ResolutionStatic}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := autoMesh(&test.service)
			four, six, ok := m.AutoAddresses(m.Services()[0])
			if ok != test.want {
				t.Fatalf("has one: %t, want %t", ok, test.want)
			}
			if !ok {
				return
			}
			if !netip.MustParsePrefix("240.240.0.0/16").Contains(four) || !netip.MustParsePrefix("2001:2::/48").Contains(six) {
				t.Errorf("got %s and %s, out of the ranges", four, six)
			}
			for _, a := range []netip.Addr{four, six} {
				if place, ok := placeOf(a.String()); !ok || place != m.places[m.Services()[0].key()] {
					t.Errorf("%s is of place %d, %t", a, place, ok)
				}
			}
		})
	}
}

// Equal meshes give equal addresses, in any order of services. A new service moves no address; the removal of a service
// moves at most those placed around it. An address that a service has explicitly is given to no other service.
func TestAutoAddressesStayWhereTheyAre(t *testing.T) {
	const n = 3000
	var services []*Service
	for i := range n {
		services = append(services, &Service{
			Right: RightFull, Host: fmt.Sprintf("s%d.com", i), Namespace: "default", Resolution: ResolutionStatic, Created: time.Unix(int64(i), 0),
		})
	}
	all := autoOf(autoMesh(services...))
	if distinct := slices.Compact(slices.Sorted(maps.Values(all))); len(all) != n || len(distinct) != n {
		t.Fatalf("%d services have %d addresses, %d of them different", n, len(all), len(distinct))
	}
	backwards := slices.Clone(services)
	slices.Reverse(backwards)
	if !maps.Equal(autoOf(autoMesh(backwards...)), all) {
		t.Error("the order in which services come changes addresses")
	}
	before := autoOf(autoMesh(services[:n-1]...))
	for key, address := range before {
		if all[key] != address {
			t.Errorf("a younger service moves %s from %s to %s", key, address, all[key])
		}
	}
	moved := 0
	for key, address := range autoOf(autoMesh(services[1:]...)) {
		if all[key] != address {
			moved++
		}
	}
	if moved > 2 {
		t.Errorf("one service less moves %d", moved)
	}

	used := all["default/s7.com"]
	own := autoOf(autoMesh(append(slices.Clone(services), &Service{Right: RightFull, Host: "own.com", Resolution: ResolutionStatic, Addresses: []string{used}})...))
	if own["default/s7.com"] == used {
		t.Errorf("%s is somebody's own, and given to another", used)
	}
	for _, address := range all {
		if last := netip.MustParseAddr(address).As4()[3]; last == 0 || last == 255 {
			t.Errorf("%s ends a network", address)
		}
	}
}

// With keeps the addresses.
func TestAutoAddressesOnTheShortPath(t *testing.T) {
	s := &Service{Right: RightFull, Host: "a.com", Resolution: ResolutionStatic, Endpoints: []Endpoint{{Address: "10.0.0.1"}}}
	m := autoMesh(s)
	want := autoOf(m)
	moved := *s
	moved.Endpoints = []Endpoint{{Address: "10.0.0.2"}}
	next, ok := m.With([]*Service{&moved}, nil)
	if !ok || !maps.Equal(autoOf(next), want) {
		t.Errorf("got %v, %t, want %v", autoOf(next), ok, want)
	}
}

// With more services than places, the youngest services get no address, and the search ends.
func TestAutoAddressesEnd(t *testing.T) {
	var services []*Service
	for i := range autoPlaces + 10 {
		services = append(services, &Service{Right: RightFull, Host: fmt.Sprintf("s%06d.com", i), Resolution: ResolutionStatic})
	}
	if got := len(autoOf(autoMesh(services...))); got != autoPlaces {
		t.Errorf("%d have an address, want %d", got, autoPlaces)
	}
}

// Next recomputes the addresses after a change that affects them.
func TestAutoAddressesOfTheNextGeneration(t *testing.T) {
	at := func(change func(s *Service)) *Service {
		s := &Service{Right: RightFull, Host: "a.com", Namespace: "default", Resolution: ResolutionStatic, Endpoints: []Endpoint{{Address: "10.0.0.1"}}}
		change(s)
		return s
	}
	for name, test := range map[string]struct {
		change func(s *Service)
		want   bool
	}{
		"endpoints":  {func(s *Service) { s.Endpoints = nil }, true},
		"an address": {func(s *Service) { s.Addresses = []string{"10.0.0.1"} }, false},
		"resolution": {func(s *Service) { s.Resolution = ResolutionNone }, false},
		"headless":   {func(s *Service) { s.Headless = true }, false},
		"namespace":  {func(s *Service) { s.Namespace = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			changed := at(test.change)
			next := autoMesh(at(func(*Service) {})).Next(slices.Values([]Group{{Services: []*Service{changed}}}))
			if _, _, ok := next.AutoAddresses(changed); ok != test.want || !maps.Equal(autoOf(next), autoOf(autoMesh(changed))) {
				t.Errorf("got %v, want it: %t", autoOf(next), test.want)
			}
		})
	}
}
