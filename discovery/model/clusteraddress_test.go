package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Clients in each cluster use the address that their cluster gives the service, for any owner of the service; other
// clusters use the owner's address.
func TestAddressesOfEachCluster(t *testing.T) {
	of := func(registry, cluster string, age int64, addresses ...string) *Service {
		return registered(cluster, "10.1.0.1", func(s *Service) {
			s.Registry, s.Created, s.Addresses = registry, time.Unix(age, 0), addresses
		})
	}
	east := of("Kubernetes", "east", 1, "10.96.0.1")
	apart := of("Kubernetes", "west", 2, "10.97.0.1")
	apart.Headless = true
	entry := entryOf()
	for name, test := range map[string]struct {
		services []*Service
		want     string // addresses in east, west and another cluster
		told     string // clusters for which ClusterAs returns the cluster
		notes    []string
	}{
		"one cluster":              {[]*Service{east}, "[10.96.0.1] [10.96.0.1] [10.96.0.1]", "", nil},
		"two":                      {[]*Service{of("Kubernetes", "west", 2, "10.97.0.1"), east}, "[10.96.0.1] [10.97.0.1] [10.96.0.1]", "west", nil},
		"two with the same":        {[]*Service{of("Kubernetes", "west", 2, "10.96.0.1"), east}, "[10.96.0.1] [10.96.0.1] [10.96.0.1]", "", nil},
		"two of both families":     {[]*Service{of("Kubernetes", "west", 2, "10.97.0.1", "fd00::1"), east}, "[10.96.0.1] [10.97.0.1 fd00::1] [10.96.0.1]", "west", nil},
		"one without":              {[]*Service{of("Kubernetes", "west", 2), east}, "[10.96.0.1] [10.96.0.1] [10.96.0.1]", "", nil},
		"the owner without":        {[]*Service{of("Consul", "", 0), east}, "[10.96.0.1] [] []", "east", nil},
		"one that does not join":   {[]*Service{apart, east}, "[10.96.0.1] [10.96.0.1] [10.96.0.1]", "", []string{"hosts"}},
		"another registry":         {[]*Service{of("Consul", "west", 2, "10.97.0.1"), east}, "[10.96.0.1] [10.97.0.1] [10.96.0.1]", "west", nil},
		"another of the owner's":   {[]*Service{of("Consul", "east", 2, "10.97.0.1"), east}, "[10.96.0.1] [10.96.0.1] [10.96.0.1]", "", []string{"addresses"}},
		"two of a further cluster": {[]*Service{of("Consul", "west", 3, "10.98.0.1"), of("Kubernetes", "west", 2, "10.97.0.1"), east}, "[10.96.0.1] [10.97.0.1] [10.96.0.1]", "west", []string{"addresses"}},
		"no cluster":               {[]*Service{of("Consul", "", 2, "10.97.0.1"), east}, "[10.96.0.1] [10.96.0.1] [10.96.0.1]", "", []string{"addresses"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := meshOf([]*Object{entry}, test.services...)
			s := m.Service("x.test")
			got := fmt.Sprint(s.AddressesIn("east"), s.AddressesIn("west"), s.AddressesIn("north"))
			if got != test.want {
				t.Errorf("addresses are %s, want %s", got, test.want)
			}
			var told []string
			for _, cluster := range []string{"east", "west", "north", ""} {
				if as := m.ClusterAs(cluster); as != "" {
					told = append(told, as)
				}
			}
			if got := strings.Join(told, " "); got != test.told {
				t.Errorf("clusters told apart are %q, want %q", got, test.told)
			}
			var notes []string
			for _, n := range m.Notes() {
				notes = append(notes, n.Path)
			}
			if !slices.Equal(notes, test.notes) {
				t.Errorf("notes are about %v, want %v", notes, test.notes)
			}
		})
	}
}

// A note names the declaration whose address is used instead.
func TestNoteNamesTheAddressInUse(t *testing.T) {
	of := func(registry, cluster, address string, age int64) *Service {
		return registered(cluster, "10.1.0.1", func(s *Service) {
			s.Registry, s.Created, s.Addresses = registry, time.Unix(age, 0), []string{address}
		})
	}
	notes := meshOf(nil, of("Kubernetes", "east", "10.96.0.1", 1), of("Kubernetes", "west", "10.97.0.1", 2), of("Consul", "west", "10.98.0.1", 3)).Notes()
	if len(notes) != 1 || notes[0].Other.Origin.Cluster() != "west" || !strings.Contains(notes[0].Message, "Kubernetes Service a/x (cluster west)") {
		t.Errorf("notes are %+v, want one that names Kubernetes' service of west", notes)
	}
}

// A change of endpoints by With keeps the addresses of each cluster; a change of an address needs Next.
func TestAddressesOfAClusterOnTheShortPath(t *testing.T) {
	west := func(endpoint, address string) *Service {
		return registered("west", endpoint, func(s *Service) { s.Addresses = []string{address} })
	}
	m := meshOf(nil, registered("east", "10.1.0.1"), west("10.2.0.1", "10.97.0.1"))
	next, ok := m.With([]*Service{west("10.2.0.9", "10.97.0.1")}, nil)
	if !ok {
		t.Fatal("a change of an endpoint takes the long path")
	}
	if got := next.Service("x.test").AddressesIn("west"); !slices.Equal(got, []string{"10.97.0.1"}) || next.ClusterAs("west") != "west" {
		t.Errorf("west has %v", got)
	}
	if _, ok := m.With([]*Service{west("10.2.0.1", "10.97.0.2")}, nil); ok {
		t.Error("a change of an address takes the short path")
	}
}

// An automatic address is never equal to one that a cluster gave a service.
func TestAutomaticAddressesAvoidThoseOfClusters(t *testing.T) {
	lone := registered("east", "10.3.0.1", func(s *Service) { s.Host, s.Name, s.Addresses = "lone.test", "lone", nil })
	four, _, _ := meshOf(nil, lone).AutoAddresses(lone)
	taken := registered("west", "10.2.0.1", func(s *Service) { s.Addresses = []string{four.String()} })
	m := meshOf(nil, registered("east", "10.1.0.1"), taken, lone)
	if got, _, ok := m.AutoAddresses(lone); !ok || got == four {
		t.Errorf("lone.test has %s, which is x.test's in west", got)
	}
	moved := registered("west", "10.2.0.1", func(s *Service) { s.Addresses = []string{"10.97.0.1"} })
	next := m.Next(slices.Values([]Group{{Services: []*Service{registered("east", "10.1.0.1"), moved, lone}}}))
	if got, _, _ := next.AutoAddresses(lone); got != four {
		t.Errorf("lone.test has %s once %s is free", got, four)
	}
}
