package model

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// Services of one host at one address are always in the same order, for every way in which the mesh was made.
func TestServicesAtKeepTheirOrder(t *testing.T) {
	at := func(namespace string, created int64, port uint32) *Service {
		s := in(namespace, "x.test")
		s.Created, s.Ports = time.Unix(created, 0), []Port{{Number: 80}}
		s.Endpoints = []Endpoint{{Address: "10.0.0.1", Ports: map[string]uint32{"": port}}}
		return s
	}
	m := meshOf(nil, at("a", 3, 1), at("b", 2, 1), at("c", 1, 1))
	for range 50 {
		next, ok := m.With([]*Service{at("a", 3, 2), at("b", 2, 2), at("c", 1, 2)}, nil)
		if !ok {
			t.Fatal("endpoints alone do not take the short path")
		}
		var got []string
		for _, s := range next.ServicesAt(netip.MustParseAddr("10.0.0.1")) {
			got = append(got, s.Namespace)
		}
		if want := []string{"c", "b", "a"}; !slices.Equal(got, want) {
			t.Fatalf("the services are of %s, want the oldest first, %s", got, want)
		}
	}
}
