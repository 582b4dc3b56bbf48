package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// Two declarations of a host in one namespace give one service, whose endpoints serve the ports of their own
// declaration.
func TestDeclarationsOfOneHostMerge(t *testing.T) {
	at := func(address string) []Endpoint { return []Endpoint{{Address: address}} }
	declare := func(name string, endpoints []Endpoint, ports ...Port) *Service {
		return &Service{Right: RightFull, Host: "x.test", Namespace: "a", Name: name, Resolution: ResolutionStatic, Ports: ports, Endpoints: endpoints}
	}
	changed := func(s *Service, change func(*Service)) *Service { change(s); return s }
	http, grpc := Port{Name: "http", Number: 80, Target: 8080, Protocol: HTTP}, Port{Name: "grpc", Number: 90, Protocol: GRPC}
	for name, test := range map[string]struct {
		services []*Service
		want     string // port name/number/protocol: address:port
	}{
		"two ports": {
			[]*Service{declare("second", at("10.0.0.2"), grpc), declare("first", at("10.0.0.1"), http)},
			"http/80/HTTP: 10.0.0.1:8080, grpc/90/GRPC: 10.0.0.2:90",
		},
		"one port twice": {
			[]*Service{declare("first", at("10.0.0.1"), http), declare("second", at("10.0.0.2"), Port{Name: "web", Number: 80, Protocol: TCP})},
			"http/80/HTTP: 10.0.0.1:8080 10.0.0.2:80",
		},
		"two ports of one name": {
			[]*Service{declare("first", at("10.0.0.1"), http), declare("second", at("10.0.0.2"), Port{Name: "http", Number: 81, Protocol: HTTP})},
			"http/80/HTTP: 10.0.0.1:8080, http-81/81/HTTP: 10.0.0.2:81",
		},
		"the same again": {
			[]*Service{declare("first", at("10.0.0.1"), http), declare("second", at("10.0.0.1"), http)},
			"http/80/HTTP: 10.0.0.1:8080",
		},
		"three": {
			[]*Service{
				declare("first", at("10.0.0.1"), http), declare("second", at("10.0.0.2"), grpc), declare("third", at("10.0.0.3"), http, grpc),
			},
			"http/80/HTTP: 10.0.0.1:8080 10.0.0.3:8080, grpc/90/GRPC: 10.0.0.2:90 10.0.0.3:90",
		},
		"another resolution": {
			[]*Service{
				declare("first", at("10.0.0.1"), http),
				changed(declare("second", at("y.test"), grpc), func(s *Service) { s.Resolution = ResolutionDNS }),
				declare("third", at("10.0.0.3"), grpc),
			},
			"http/80/HTTP: 10.0.0.1:8080, grpc/90/GRPC: 10.0.0.3:90",
		},
		"a single endpoint": {
			[]*Service{
				changed(declare("first", at("y.test"), http), func(s *Service) { s.Resolution = ResolutionDNSRoundRobin }),
				changed(declare("second", at("z.test"), http, grpc), func(s *Service) { s.Resolution = ResolutionDNSRoundRobin }),
			},
			"http/80/HTTP: y.test:8080, grpc/90/GRPC: z.test:90",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values([]Group{{Services: test.services}}))
			if n := len(m.Services()); n != 1 {
				t.Fatalf("%d services, want one", n)
			}
			s := m.Services()[0]
			var got []string
			for _, p := range s.Ports {
				var addresses []string
				for _, e := range s.Endpoints {
					if n := e.PortOn(p); n != 0 {
						addresses = append(addresses, fmt.Sprintf("%s:%d", e.Address, n))
					}
				}
				got = append(got, fmt.Sprintf("%s/%d/%s: %s", p.Name, p.Number, p.Protocol, strings.Join(addresses, " ")))
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
			if next := m.Next(slices.Values([]Group{{Services: test.services}})); next.Services()[0] != s {
				t.Error("of the same declarations another service is made")
			}
		})
	}
}

// The unused parts of a younger declaration are noted at their fields.
func TestWhatDoesNotMergeIsTold(t *testing.T) {
	entry := func(change func(*networking.ServiceEntry)) *networking.ServiceEntry {
		e := &networking.ServiceEntry{
			Hosts: []string{"X.test"}, Resolution: networking.ServiceEntry_STATIC, Addresses: []string{"10.0.0.1"},
			Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		}
		change(e)
		return e
	}
	for name, test := range map[string]struct {
		change func(*networking.ServiceEntry)
		want   map[string]string // path: part of the message
	}{
		"nothing":            {func(*networking.ServiceEntry) {}, nil},
		"no address":         {func(e *networking.ServiceEntry) { e.Addresses = nil }, nil},
		"another port":       {func(e *networking.ServiceEntry) { e.Ports[0].Number = 81 }, nil},
		"another address":    {func(e *networking.ServiceEntry) { e.Addresses[0] = "10.0.0.2" }, map[string]string{"spec.addresses": "ServiceEntry a/first"}},
		"another protocol":   {func(e *networking.ServiceEntry) { e.Ports[0].Protocol = "TCP" }, map[string]string{"spec.ports[0].protocol": "X.test:80 is HTTP by"}},
		"another location":   {func(e *networking.ServiceEntry) { e.Location = networking.ServiceEntry_MESH_INTERNAL }, map[string]string{"spec.location": "counts"}},
		"another resolution": {func(e *networking.ServiceEntry) { e.Resolution = networking.ServiceEntry_DNS }, map[string]string{"spec.hosts[0]": "with another resolution"}},
		"other readers":      {func(e *networking.ServiceEntry) { e.ExportTo = []string{"."} }, map[string]string{"spec.hosts[0]": "with another exportTo"}},
		"other workloads": {
			func(e *networking.ServiceEntry) {
				e.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"app": "x"}}
			}, map[string]string{"spec.hosts[0]": "with another workloadSelector"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, n := range meshOf([]*Object{
				object("ServiceEntry", "a", "second", 1, entry(test.change)),
				object("ServiceEntry", "a", "first", 1, entry(func(*networking.ServiceEntry) {})),
			}).Notes() {
				if n.Meta.Name != "second" {
					t.Errorf("%s has the note: %s", n.Meta.Name, n.Message)
				}
				got[n.Path] = n.Message
			}
			if !maps.EqualFunc(got, test.want, strings.Contains) {
				t.Errorf("told %q, want %q", got, test.want)
			}
		})
	}
}
