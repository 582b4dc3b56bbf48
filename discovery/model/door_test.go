package model

import (
	"slices"
	"testing"
)

// A new replica of discovery takes the long path, which finds its address too; endpoints of other services do not.
func TestDoorsFollowReplicas(t *testing.T) {
	of := func(registry, namespace, host string, addresses ...string) *Service {
		s := in(namespace, host)
		s.Registry, s.Resolution, s.Ports = registry, ResolutionStatic, []Port{{Name: "tcp", Number: 443, Target: 15012, Protocol: TCP}}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, Endpoint{Address: a})
		}
		return s
	}
	group := func(discovery, other *Service) Group { return Group{Services: []*Service{discovery, other}} }
	one, other := of("Kubernetes", "istio-system", "discovery", "10.0.0.5"), of("Kubernetes", "shop", "other", "10.0.0.7")
	m := NewOf(Settings{Domain: DefaultDomain, Listeners: "10.0.0.5:15012"}, slices.Values([]Group{group(one, other)}))
	two := of("Kubernetes", "istio-system", "discovery", "10.0.0.5", "10.0.0.6")
	if _, short := m.With([]*Service{two}, nil); short {
		t.Error("a replica takes the short path")
	}
	if next, short := m.With([]*Service{of("Kubernetes", "shop", "other", "10.0.0.5", "10.0.0.7")}, nil); !short || next.settings.Doors != m.settings.Doors {
		t.Error("another service takes the long path, or has doors of its own")
	}
	next := m.Next(slices.Values([]Group{group(two, other)}))
	for at, want := range map[string]bool{"10.0.0.5": true, "10.0.0.6": true, "10.0.0.7": false} {
		if next.settings.Doors.Lead(at, 15012) != want {
			t.Errorf("%s is discovery's: %v", at, !want)
		}
	}
	if again := next.Next(slices.Values([]Group{group(two, other)})); again.settings.Doors != next.settings.Doors {
		t.Error("the same doors are another value")
	}
}
