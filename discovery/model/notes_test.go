package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// BenchmarkNotes checks ten thousand services, each with a policy, and every tenth with routes and an error.
func BenchmarkNotes(b *testing.B) {
	m := large(10000)
	for b.Loop() {
		if n := len(m.Notes()); n != 1000 {
			b.Fatalf("%d notes", n)
		}
	}
}

// BenchmarkNotesAfter does the same after an endpoint of one service has changed.
func BenchmarkNotesAfter(b *testing.B) {
	judged := func(b *testing.B, m *Mesh, next func(m *Mesh, i int) *Mesh) {
		_, judged := m.NotesAfter(nil)
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			m = next(m, i)
			b.StartTimer()
			var notes []Note
			if notes, judged = m.NotesAfter(judged); len(notes) != 1000 {
				b.Fatalf("%d notes", len(notes))
			}
		}
	}
	m := large(10000)
	b.Run("an endpoint", func(b *testing.B) {
		judged(b, m, func(m *Mesh, i int) *Mesh { return moved(b, m, 7, i) })
	})
	b.Run("a service", func(b *testing.B) {
		judged(b, m, func(last *Mesh, i int) *Mesh {
			added := in("n1", fmt.Sprintf("x%d.n1.svc.cluster.local", i))
			return last.Next(slices.Values([]Group{{Objects: slices.Clone(m.Objects()), Services: append(slices.Clone(m.Services()), added)}}))
		})
	})
}

// moved returns the mesh with another endpoint of one of its services.
func moved(t testing.TB, m *Mesh, service, to int) *Mesh {
	t.Helper()
	one := *m.Services()[service]
	one.Endpoints = append([]Endpoint{{Address: fmt.Sprintf("10.9.%d.%d", to/250%250, to%250), Labels: one.Endpoints[0].Labels}}, one.Endpoints[1:]...)
	next, ok := m.With([]*Service{&one}, nil)
	if !ok {
		t.Fatal("an endpoint does not take the short path")
	}
	return next
}

// After a change of an endpoint only the policy of its host is examined, and after one of routes only these, among 2,000
// services as among 200; and after another service only what names its host, or none that exists. Proxies that connect change
// nothing about these. What has a note is not examined again for that.
func TestNotesLookAtWhatChanged(t *testing.T) {
	for _, n := range []int{200, 2000} {
		var services []*Service
		var objects []*Object
		route := func(i int, subset string) *Object {
			host := fmt.Sprintf("s%d.n.svc.cluster.local", i)
			return object("VirtualService", "n", fmt.Sprint("v", i), 1, &networking.VirtualService{
				Hosts: []string{host}, Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host, Subset: subset}}}}},
			})
		}
		for i := range n {
			s := in("n", fmt.Sprintf("s%d.n.svc.cluster.local", i))
			s.Resolution, s.Ports = ResolutionStatic, []Port{{Name: "http", Number: 80, Protocol: HTTP}}
			s.Endpoints = []Endpoint{{Address: "10.0.0.1", Labels: map[string]string{"version": "v1"}}, {Address: "10.0.0.2", Labels: map[string]string{"version": "v2"}}}
			services = append(services, s)
			objects = append(objects, route(i, "v1"), object("DestinationRule", "n", fmt.Sprint("d", i), 1,
				&networking.DestinationRule{Host: s.Host, Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"version": "v1"}}}}))
		}
		wide := Bounds{1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e9, 1e9, 1e9} // else what others get of this namespace changes, and each object is examined
		m := NewOf(Settings{Domain: DefaultDomain, Bounds: &wide}, slices.Values([]Group{{Objects: objects, Services: services}}))
		notes, judged := m.NotesAfter(nil)
		step := func(what string, next *Mesh, looked, want int, connected ...Proxy) {
			t.Helper()
			m = next
			if notes, judged = m.NotesAfter(judged, connected...); judged.looked != looked || len(notes) != want {
				t.Errorf("%d services, %s: %d objects are examined, want %d; the notes are %v, want %d", n, what, judged.looked, looked, notes, want)
			}
			if whole := m.Notes(connected...); fmt.Sprint(whole) != fmt.Sprint(notes) {
				t.Errorf("%d services, %s: notes are\n%v\nwant\n%v", n, what, notes, whole)
			}
		}
		step("nothing changed", m, 0, 0)
		step("an endpoint", moved(t, m, 7, 1), 1, 0)
		step("a proxy", m, 0, 0, Proxy{Namespace: "n", Labels: map[string]string{"version": "v1"}})
		none := *m.Services()[7]
		none.Endpoints = none.Endpoints[1:]
		next, _ := m.With([]*Service{&none}, nil)
		step("the last endpoint of a subset goes", next, 1, 1)
		step("and another one", moved(t, m, 8, 2), 1, 1)
		next, _ = m.With(nil, []*Object{route(9, "v2")})
		step("a route to no subset", next, 1, 2)
		next, _ = m.With(nil, []*Object{route(9, "v1")})
		step("a route to one", next, 1, 1)
		whole := func(services []*Service, added ...*Object) *Mesh {
			return m.Next(slices.Values([]Group{{Objects: slices.Concat(objects, added), Services: services}}))
		}
		step("all as it was", whole(services), 3, 0) // two policies and a route
		added := in("n", "new.n.svc.cluster.local")
		added.Ports = services[0].Ports
		to := route(n, "")
		to.Spec = &networking.VirtualService{Hosts: []string{"new"}}
		step("a service", whole(append(slices.Clone(services), added)), 0, 0)
		step("its routes", whole(append(slices.Clone(services), added), to), 1, 0)
		step("the service goes", whole(services, to), 1, 1)
		step("another policy", whole(services, to, object("DestinationRule", "n", "other", 2, &networking.DestinationRule{Host: "s5"})), 3, 1)
		step("which goes", whole(services, to), 2, 1)
		step("a policy for all", whole(services, to, object("DestinationRule", "n", "other", 2, &networking.DestinationRule{Host: "*"})), 2*n+2, 1)
	}
}

func large(n int) *Mesh {
	var services []*Service
	var objects []*Object
	for i := range n {
		s := in(fmt.Sprintf("n%d", i%20), fmt.Sprintf("s%d.n%d.svc.cluster.local", i, i%20))
		s.Resolution = ResolutionStatic
		for e := range 3 {
			s.Endpoints = append(s.Endpoints,
				Endpoint{Address: fmt.Sprintf("10.%d.%d.%d", e, i/250, i%250), Labels: map[string]string{"app": fmt.Sprint("a", i), "version": fmt.Sprint("v", e)}})
		}
		services = append(services, s)
		objects = append(objects, object("DestinationRule", s.Namespace, fmt.Sprint("d", i), 1,
			&networking.DestinationRule{Host: s.Host, Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"version": "v1"}}}}))
		if i%10 == 0 {
			to := &networking.Destination{Host: fmt.Sprintf("t%d.n%d.svc.cluster.local", i, i%20)}
			objects = append(objects, object("VirtualService", s.Namespace, fmt.Sprint("v", i), 1, &networking.VirtualService{
				Hosts: []string{s.Host}, Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{Destination: to}}}},
			}))
		}
	}
	return meshOf(objects, services...)
}

// A connected workload is known, even if it is no endpoint of a service.
func TestNotesOfConnected(t *testing.T) {
	m := meshOf([]*Object{
		object("Sidecar", "shop", "s", 1, &networking.Sidecar{WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": "client"}}}),
		object("VirtualService", "shop", "v", 1, &networking.VirtualService{
			Hosts: []string{"a.test"}, ExportTo: []string{"clients"}, Http: []*networking.HTTPRoute{{}},
		}),
	}, &Service{Right: RightFull, Host: "a.test", Namespace: "shop", Endpoints: []Endpoint{{Address: "10.0.0.1", Labels: map[string]string{"app": "server"}}}})
	if notes := m.Notes(); len(notes) != 2 || notes[0].Code != EmptySelector || notes[1].Code != UnknownNamespace {
		t.Errorf("without anybody: %+v", notes)
	}
	connected := []Proxy{{Namespace: "shop", Labels: map[string]string{"app": "client"}}, {Namespace: "clients"}}
	if notes := m.Notes(connected...); len(notes) > 0 {
		t.Errorf("with those who connected: %+v", notes)
	}
}

// A resource that an Envoy rejects is noted at the objects from which it was made.
func TestNotesOfRefusals(t *testing.T) {
	m := meshOf([]*Object{
		object("VirtualService", "shop", "v", 1, &networking.VirtualService{Hosts: []string{"a.test"}, Http: []*networking.HTTPRoute{{}}}),
		object("VirtualService", "shop", "wide", 2, &networking.VirtualService{Hosts: []string{"*.test"}, Http: []*networking.HTTPRoute{{}}}),
		object("DestinationRule", "shop", "d", 3, &networking.DestinationRule{Host: "a.test"}),
		object("ServiceEntry", "shop", "s", 4, &networking.ServiceEntry{Hosts: []string{"plain.example"}}),
	}, &Service{Right: RightFull, Host: "a.test", Namespace: "shop", Ports: []Port{{Number: 80, Protocol: HTTP}}})
	routes, cluster := Refusal{Host: "a.test", Routes: true, Text: "regex\n"}, Refusal{Host: "a.test"}
	for name, test := range map[string]struct {
		refused []Refusal
		want    string
	}{
		"routes":           {[]Refusal{routes}, "VirtualService/shop/v VirtualService/shop/wide"},
		"a cluster":        {[]Refusal{cluster}, "DestinationRule/shop/d"},
		"both, twice":      {[]Refusal{routes, cluster, routes, cluster}, "VirtualService/shop/v VirtualService/shop/wide DestinationRule/shop/d"},
		"a service's own":  {[]Refusal{{Host: "plain.example"}}, "ServiceEntry/shop/s"},
		"of no object":     {[]Refusal{{Host: "gone.example", Routes: true}}, ""},
		"nothing, refused": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, n := range m.Notes(Proxy{Namespace: "clients", Refused: test.refused}) {
				if n.Code == RefusedByProxy {
					got += " " + n.Meta.Key()
				}
			}
			if strings.TrimSpace(got) != test.want {
				t.Errorf("noted are%s, want %s", got, test.want)
			}
		})
	}
}
