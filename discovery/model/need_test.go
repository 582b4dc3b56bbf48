package model

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
)

// Notes that stay until another part of the mesh changes: one part for each row.
func TestNotesNeedParts(t *testing.T) {
	backend := func(endpoints int) *Service {
		s := in("n", "a.n.svc.cluster.local")
		s.Registry, s.Resolution, s.Ports = "Kubernetes", ResolutionStatic, []Port{{Name: "http", Number: 80, Protocol: HTTP}}
		for i := range endpoints {
			s.Endpoints = append(s.Endpoints, Endpoint{Address: fmt.Sprint("10.0.0.", i+1)})
		}
		return s
	}
	one, two, none := backend(1), backend(2), backend(0)
	rule := func(name string, v *networking.VirtualService) *Object {
		return object("VirtualService", "n", name, 1, v)
	}
	many := &networking.VirtualService{Hosts: []string{"a"}}
	none.Selector = map[string]string{"app": "y"}
	all := Group{Services: []*Service{one}}
	for i := range 2 * maxNeeded {
		s := in("n", fmt.Sprintf("d%d.example", i))
		s.Ports = one.Ports
		to := &networking.Destination{Host: s.Host, Port: &networking.PortSelector{Number: 80}}
		many.Http = append(many.Http, &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: to}}})
		all.Services = append(all.Services, s)
	}
	other := Group{Services: slices.Clone(all.Services)}
	last := *all.Services[2*maxNeeded]
	last.Ports = []Port{{Name: "http", Number: 90, Protocol: HTTP}}
	other.Services[2*maxNeeded] = &last
	mutual := object("DestinationRule", "n", "d", 1, &networking.DestinationRule{
		Host: "a", TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL}},
	})
	plain := object("PeerAuthentication", "n", "p", 1, &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_DISABLE}})
	at := func(certificate bool) []Proxy { // at the second endpoint
		return []Proxy{{Stream: 1, Namespace: "n", Labels: map[string]string{"app": "y"}, Certificate: certificate, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}}
	}
	for name, test := range map[string]struct {
		object        *Object
		before, after Group
		connected     []Proxy
	}{
		"a delegate": {
			rule("v", &networking.VirtualService{Hosts: []string{"a"}, Http: []*networking.HTTPRoute{{Delegate: &networking.Delegate{Name: "d"}}}}),
			Group{Services: []*Service{one}},
			Group{Services: []*Service{one}, Objects: []*Object{rule("d", &networking.VirtualService{})}},
			nil,
		},
		"a gateway": {
			rule("v", &networking.VirtualService{Hosts: []string{"x.example"}, Gateways: []string{"g"}}),
			Group{Services: []*Service{one}},
			Group{Services: []*Service{one}, Objects: []*Object{object("Gateway", "n", "g", 1, &networking.Gateway{Servers: []*networking.Server{{Hosts: []string{"*"}}}})}},
			nil,
		},
		"the number of endpoints": {
			object("DestinationRule", "n", "d", 1, &networking.DestinationRule{Host: "a", TrafficPolicy: &networking.TrafficPolicy{OutlierDetection: &networking.OutlierDetection{MaxEjectionPercent: 50}}}),
			Group{Services: []*Service{one}},
			Group{Services: []*Service{two}},
			nil,
		},
		"a template": {
			object("DestinationRule", "n", "d", 1, &networking.DestinationRule{Host: "a", Subsets: []*networking.Subset{{Name: "v", Labels: map[string]string{"app": "x"}}}}),
			Group{Services: []*Service{none}},
			Group{Services: []*Service{none}, Objects: []*Object{object("WorkloadGroup", "n", "w", 1, &networking.WorkloadGroup{Metadata: &networking.WorkloadGroup_ObjectMeta{Labels: map[string]string{"app": "y"}}})}},
			nil,
		},
		"endpoints of clients with TLS":  {mutual, Group{Services: []*Service{one}}, Group{Services: []*Service{two}}, at(false)},
		"what a sidecar takes at a port": {mutual, Group{Services: []*Service{two}}, Group{Services: []*Service{two}, Objects: []*Object{plain}}, at(true)},
		"more parts than are remembered": {
			rule("v", many), all, other, nil,
		},
		"services of another namespace below a wildcard": {
			rule("v", &networking.VirtualService{Hosts: []string{"*.m.svc.cluster.local"}, Http: []*networking.HTTPRoute{{}}}),
			Group{Services: []*Service{one}},
			Group{Services: []*Service{one, {Right: RightFull, Host: "b.m.svc.cluster.local", Namespace: "m", Registry: "Kubernetes", Ports: one.Ports}}},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(g Group) func(func(Group) bool) {
				return slices.Values([]Group{{Objects: []*Object{test.object}}, g})
			}
			m := New(of(test.before))
			first, judged := m.NotesAfter(nil, test.connected...)
			for i, g := range []Group{test.after, test.before} {
				m = m.Next(of(g))
				var notes []Note
				notes, judged = m.NotesAfter(judged, test.connected...)
				if want := New(of(g)).Notes(test.connected...); fmt.Sprint(notes) != fmt.Sprint(want) {
					t.Errorf("step %d: notes are\n%v\nwant\n%v", i, notes, want)
				} else if i == 0 && fmt.Sprint(notes) == fmt.Sprint(first) {
					t.Errorf("the change changes nothing: %v", notes)
				}
			}
		})
	}
}
