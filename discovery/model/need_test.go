package model

import (
	"fmt"
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
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
	for i := range 2 * maxNeeded {
		to := &networking.Destination{Host: fmt.Sprintf("d%d.example", i)}
		many.Http = append(many.Http, &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: to}}})
	}
	last := in("n", fmt.Sprintf("d%d.example", 2*maxNeeded-1))
	for name, test := range map[string]struct {
		object        *Object
		before, after Group
	}{
		"a delegate": {
			rule("v", &networking.VirtualService{Hosts: []string{"a"}, Http: []*networking.HTTPRoute{{Delegate: &networking.Delegate{Name: "d"}}}}),
			Group{Services: []*Service{one}},
			Group{Services: []*Service{one}, Objects: []*Object{rule("d", &networking.VirtualService{})}},
		},
		"a gateway": {
			rule("v", &networking.VirtualService{Hosts: []string{"x.example"}, Gateways: []string{"g"}}),
			Group{Services: []*Service{one}},
			Group{Services: []*Service{one}, Objects: []*Object{object("Gateway", "n", "g", 1, &networking.Gateway{Servers: []*networking.Server{{Hosts: []string{"*"}}}})}},
		},
		"the number of endpoints": {
			object("DestinationRule", "n", "d", 1, &networking.DestinationRule{Host: "a", TrafficPolicy: &networking.TrafficPolicy{OutlierDetection: &networking.OutlierDetection{MaxEjectionPercent: 50}}}),
			Group{Services: []*Service{one}},
			Group{Services: []*Service{two}},
		},
		"a template": {
			object("DestinationRule", "n", "d", 1, &networking.DestinationRule{Host: "a", Subsets: []*networking.Subset{{Name: "v", Labels: map[string]string{"app": "x"}}}}),
			Group{Services: []*Service{none}},
			Group{Services: []*Service{{
				Host: none.Host, Namespace: "n", Registry: "Kubernetes", Resolution: ResolutionStatic, Ports: none.Ports, Selector: map[string]string{"app": "y"},
			}}, Objects: []*Object{object("WorkloadGroup", "n", "w", 1, &networking.WorkloadGroup{Metadata: &networking.WorkloadGroup_ObjectMeta{Labels: map[string]string{"app": "y"}}})}},
		},
		"more parts than are remembered": {
			rule("v", many), Group{Services: []*Service{one}}, Group{Services: []*Service{one, last}},
		},
		"services of another namespace below a wildcard": {
			rule("v", &networking.VirtualService{Hosts: []string{"*.m.svc.cluster.local"}, Http: []*networking.HTTPRoute{{}}}),
			Group{Services: []*Service{one}},
			Group{Services: []*Service{one, {Host: "b.m.svc.cluster.local", Namespace: "m", Registry: "Kubernetes", Ports: one.Ports}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(g Group) func(func(Group) bool) {
				return slices.Values([]Group{{Objects: []*Object{test.object}}, g})
			}
			m := New(of(test.before))
			first, judged := m.NotesAfter(nil)
			for i, g := range []Group{test.after, test.before} {
				m = m.Next(of(g))
				var notes []Note
				notes, judged = m.NotesAfter(judged)
				if want := New(of(g)).Notes(); fmt.Sprint(notes) != fmt.Sprint(want) {
					t.Errorf("step %d: notes are\n%v\nwant\n%v", i, notes, want)
				} else if i == 0 && fmt.Sprint(notes) == fmt.Sprint(first) {
					t.Errorf("the change changes nothing: %v", notes)
				}
			}
		})
	}
}
