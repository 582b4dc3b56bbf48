package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// named returns a service that is only another name of a host.
func named(host, target string, exportTo ...string) *Service {
	namespace := strings.Split(host, ".")[1]
	s := in(namespace, host, exportTo...)
	s.Registry, s.External, s.Resolution, s.ExternalName = "Kubernetes", true, ResolutionDNS, target
	s.Endpoints = []Endpoint{{Address: target}}
	return s
}

// A name belongs to the service to which it leads, also through other names. Without one, and in a circle, it is a
// service of its own, and so it is to a proxy that does not see the other.
func TestAliases(t *testing.T) {
	const target, a, b, c = "t.shop.svc.cluster.local", "a.shop.svc.cluster.local", "b.web.svc.cluster.local", "c.shop.svc.cluster.local"
	own := func(exportTo ...string) *Service {
		s := in("shop", target, exportTo...)
		s.Endpoints = []Endpoint{{Address: "10.0.0.1"}}
		return s
	}
	chain := func(n int) (out []*Service) {
		last := target
		for i := range n {
			host := fmt.Sprintf("n%d.shop.svc.cluster.local", i)
			out, last = append(out, named(host, last)), host
		}
		return out
	}
	imports := func(hosts ...string) *Object {
		return object("Sidecar", "web", "s", 1, &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: hosts}}})
	}
	all := func(s ...*Service) []*Service { return s }
	for name, test := range map[string]struct {
		services []*Service
		objects  []*Object
		want     string // what a proxy of namespace web reaches by a, b and c
	}{
		"a name":           {all(own(), named(a, target)), nil, "t - -"},
		"of a name":        {all(own(), named(a, b), named(b, c), named(c, target)), nil, "t t t"},
		"of no service":    {all(own(), named(a, "example.com"), named(b, a)), nil, "a b -"},
		"of itself":        {all(own(), named(a, a), named(b, a)), nil, "a b -"},
		"a circle":         {all(own(), named(a, b), named(b, c), named(c, a)), nil, "a b c"},
		"a long chain":     {append(chain(20), own(), named(a, "n3.shop.svc.cluster.local"), named(b, "n19.shop.svc.cluster.local")), nil, "t b -"},
		"a hidden service": {all(own("."), named(a, target), named(b, target)), nil, "a b -"},
		"a hidden name":    {all(own(), named(a, target, "."), named(b, target)), nil, "- t -"},
		"both imported":    {all(own(), named(a, target)), []*Object{imports("shop/*")}, "t - -"},
		"only the name":    {all(own(), named(a, target)), []*Object{imports("shop/" + a)}, "a - -"},
		"only the service": {all(own(), named(a, target)), []*Object{imports("shop/" + target)}, "- - -"},
		"in different listeners": {all(own(), named(a, target)), []*Object{object("Sidecar", "web", "s", 1, &networking.Sidecar{Egress: []*networking.IstioEgressListener{
			{Hosts: []string{"shop/" + a}, Port: &networking.SidecarPort{Number: 80}}, {Hosts: []string{"shop/" + target}},
		}})}, "a - -"},
		"of a rule that is imported": {all(own(), named(a, target), in("web", "x.web.svc.cluster.local")), []*Object{
			imports("web/*"), object("VirtualService", "web", "v", 1, &networking.VirtualService{Hosts: []string{"x"}, Http: []*networking.HTTPRoute{{
				Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: a}}},
			}}}),
		}, "t - -"},
	} {
		t.Run(name, func(t *testing.T) {
			scope := meshOf(test.objects, test.services...).Scope("web", nil)
			var got []string
			for _, host := range []string{a, b, c} {
				s := scope.Service(host)
				if s == nil {
					got = append(got, "-")
					continue
				}
				got = append(got, s.Host[:1])
				if own := s.Host == host; own != slices.Contains(scope.Services(), s) && own || !slices.Contains(scope.Services(), s) {
					t.Errorf("%s is not among the services", s.Host)
				}
				if s.Host != host && slices.ContainsFunc(scope.Services(), func(s *Service) bool { return s.Host == host }) {
					t.Errorf("%s is a service of its own as well", host)
				}
			}
			if fmt.Sprint(got) != "["+test.want+"]" {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

// A service keeps its names when its endpoints change, a name that changes is indexed again, and a mesh with the same
// services has the same pointers.
func TestAliasesOfGenerations(t *testing.T) {
	const target, a = "t.shop.svc.cluster.local", "a.shop.svc.cluster.local"
	groups := func(address, name string) []Group {
		s := in("shop", target)
		s.Registry, s.Endpoints = "Kubernetes", []Endpoint{{Address: address}}
		return []Group{{Services: []*Service{s}}, {Services: []*Service{named(a, name)}}}
	}
	before := groups("10.0.0.1", target)
	first := New(slices.Values(before))
	if again := first.Next(slices.Values(before)); again.Service(target) != first.Service(target) || again.Service(a) != first.Service(a) {
		t.Error("equal services are made anew")
	}
	moved, ok := first.With(groups("10.0.0.2", target)[0].Services, nil)
	if s := moved.Service(target); !ok || s.Endpoints[0].Address != "10.0.0.2" || !slices.Equal(s.Aliases, []string{a}) {
		t.Errorf("after a change of endpoints: %t, %+v", ok, s)
	}
	if _, ok := first.With(groups("10.0.0.1", "other.example")[1].Services, nil); ok {
		t.Error("another name counts as a change of endpoints")
	}
	if s := first.Next(slices.Values(groups("10.0.0.1", "other.example"))).Service(target); len(s.Aliases) > 0 {
		t.Errorf("a name that leads elsewhere stays: %v", s.Aliases)
	}
}

// A policy for a name has no effect, a port counts if the service has it, and a circle is named.
func TestNotesOfAliases(t *testing.T) {
	const target, a, b = "t.shop.svc.cluster.local", "a.shop.svc.cluster.local", "b.shop.svc.cluster.local"
	to := func(port uint32, subset string) *Object {
		return object("VirtualService", "shop", "v", 1, &networking.VirtualService{Hosts: []string{target}, Http: []*networking.HTTPRoute{{
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "a", Subset: subset, Port: &networking.PortSelector{Number: port}}}},
		}}})
	}
	s := in("shop", target)
	s.Ports = append(s.Ports, Port{Name: "more", Number: 81})
	subsets := object("DestinationRule", "shop", "t", 1, &networking.DestinationRule{Host: "t", Subsets: []*networking.Subset{{Name: "v1"}}})
	for name, test := range map[string]struct {
		object *Object
		second string // to which b leads
		want   string
	}{
		"a destination":      {to(81, "v1"), target, ""},
		"an unknown port":    {to(82, ""), target, "unknown-port VirtualService/shop/v spec.http[0].route[0].destination.port.number"},
		"an unknown subset":  {to(80, "v2"), target, "unknown-subset VirtualService/shop/v spec.http[0].route[0].destination.subset"},
		"a policy":           {object("DestinationRule", "shop", "d", 1, &networking.DestinationRule{Host: "a"}), a, "ignored-field DestinationRule/shop/d spec.host"},
		"a policy of a name": {object("DestinationRule", "shop", "d", 1, &networking.DestinationRule{Host: "b"}), "example.com", ""},
		"a circle":           {to(80, ""), b, "unknown-host Service/shop/b spec.externalName"},
	} {
		t.Run(name, func(t *testing.T) {
			name := named(b, test.second)
			name.Name = "b"
			if got := codesOf(meshOf([]*Object{test.object, subsets}, s, named(a, target), name).Notes()); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
