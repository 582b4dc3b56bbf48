package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// With accepts changes of endpoints and of routes, and no change that affects more.
func TestWith(t *testing.T) {
	entry := func(name string, hosts ...string) *Object {
		return object("ServiceEntry", "a", name, 1, &networking.ServiceEntry{Hosts: hosts})
	}
	rule := func(change func(*networking.VirtualService)) *Object {
		v := &networking.VirtualService{Hosts: []string{"x.test"}, Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{
			{Destination: &networking.Destination{Host: "x.test", Subset: "gone"}},
		}}}}
		change(v)
		return object("VirtualService", "a", "rule", 1, v)
	}
	as := func(s *Service, change func(*Service)) *Service { change(s); return s }
	same := func(*networking.VirtualService) {}
	service := func() *Service { return in("a", "x.test") }
	before := []*Object{entry("x", "x.test", "y.test"), rule(same)}
	for name, test := range map[string]struct {
		services []*Service
		objects  []*Object
		want     bool
	}{
		"nothing": {nil, nil, false},
		"endpoints": {[]*Service{as(service(),
			func(s *Service) { s.Endpoints = []Endpoint{{Address: "10.0.0.1"}} })}, nil, true},
		"and the object that declares them": {[]*Service{service()}, []*Object{entry("x", "x.test", "y.test")}, true},
		"a host less":                       {[]*Service{service()}, []*Object{entry("x", "x.test")}, false},
		"a new object":                      {[]*Service{service()}, []*Object{entry("z", "x.test")}, false},
		"a new service":                     {[]*Service{in("a", "new.test")}, nil, false},
		"another namespace's":               {[]*Service{in("b", "x.test")}, nil, false},
		"a port":                            {[]*Service{as(service(), func(s *Service) { s.Ports = []Port{{Number: 1}} })}, nil, false},
		"a headless one":                    {[]*Service{as(service(), func(s *Service) { s.Headless = true })}, nil, false},
		"one that two declare":              {[]*Service{in("a", "twice.test")}, nil, false},
		"routes":                            {nil, []*Object{rule(func(v *networking.VirtualService) { v.Http[0].Name = "a" })}, true},
		"another host":                      {nil, []*Object{rule(func(v *networking.VirtualService) { v.Hosts[0] = "b.test" })}, false},
		"another gateway":                   {nil, []*Object{rule(func(v *networking.VirtualService) { v.Gateways = []string{"a"} })}, false},
		"for others":                        {nil, []*Object{rule(func(v *networking.VirtualService) { v.ExportTo = []string{"."} })}, false},
		"a delegate": {
			nil,
			[]*Object{rule(func(v *networking.VirtualService) { v.Http[0].Delegate = &networking.Delegate{} })},
			false,
		},
		"bytes": {nil, []*Object{rule(func(v *networking.VirtualService) { v.Tcp = []*networking.TCPRoute{{}} })}, false},
		"labels that nobody read": {nil, []*Object{rule(func(v *networking.VirtualService) {
			v.Http[0].Match = []*networking.HTTPMatchRequest{{SourceLabels: map[string]string{"a": "b"}}}
		})}, false},
		"a kind that decides more": {nil, []*Object{object("Sidecar", "a", "s", 1, &networking.Sidecar{})}, false},
		"both":                     {[]*Service{service()}, []*Object{rule(func(v *networking.VirtualService) { v.Http = nil })}, true},
		"a name of another's store": {
			nil,
			[]*Object{object("VirtualService", "a", "twin", 1, &networking.VirtualService{Hosts: []string{"t.test"}})},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			twin := object("VirtualService", "a", "twin", 1, &networking.VirtualService{Hosts: []string{"t.test"}})
			m := meshOf(append(slices.Clone(before), object("Sidecar", "a", "s", 1, &networking.Sidecar{}), twin, twin),
				service(), in("a", "y.test"), in("a", "twice.test"), in("a", "twice.test"))
			if _, ok := m.With(test.services, test.objects); ok != test.want {
				t.Errorf("is taken: %v, want %v", ok, test.want)
			}
		})
	}
}

// The notes about a rule's routes are made again, and its other notes have the rule's new lines.
func TestWithJudgesAgain(t *testing.T) {
	rule := func(line int, subset string) *Object {
		o := object("VirtualService", "a", "rule", 2, &networking.VirtualService{
			Hosts: []string{"x.test"}, Gateways: []string{"mesh", "gw"}, Http: []*networking.HTTPRoute{{
				Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "x.test", Subset: subset}}},
			}},
		})
		o.Origin = Origin{File: "f", Line: line}
		return o
	}
	older := object("VirtualService", "a", "older", 1,
		&networking.VirtualService{Hosts: []string{"x.test"}, Http: []*networking.HTTPRoute{{}}})
	told := func(m *Mesh) string {
		var out []string
		for _, n := range m.Notes() {
			out = append(out, n.Meta.Origin.String()+" "+n.Path)
		}
		return strings.Join(out, ", ")
	}
	m := meshOf([]*Object{older, rule(1, "gone")}, in("a", "x.test"))
	if got, want := told(m), "f:1 spec.gateways[1], f:1 spec.hosts[0], f:1 spec.http[0].route[0].destination.subset"; got != want {
		t.Errorf("notes %s, want %s", got, want)
	}
	next, ok := m.With(nil, []*Object{rule(7, "")})
	if !ok {
		t.Fatal("a change of routes is not taken")
	}
	if got, want := told(next), "f:7 spec.gateways[1], f:7 spec.hosts[0]"; got != want {
		t.Errorf("notes %s, want %s", got, want)
	}
}

// With accepts objects of every kind that only moved in their files, and notes about them have the new lines.
func TestWithTakesWhatMoved(t *testing.T) {
	policy := &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{}}
	kinds := map[string]func() any{
		"VirtualService": func() any {
			return &networking.VirtualService{Hosts: []string{"x.test"}, Http: []*networking.HTTPRoute{{}}}
		},
		"DestinationRule": func() any { return &networking.DestinationRule{Host: "x.test", TrafficPolicy: policy} },
		"Sidecar": func() any {
			return &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: []string{"*/*"}}}}
		},
		"Gateway": func() any {
			return &networking.Gateway{Selector: map[string]string{"a": "b"}, Servers: []*networking.Server{{
				Port: &networking.Port{Number: 80, Name: "http", Protocol: "HTTP"}, Hosts: []string{"x.test"},
			}}}
		},
	}
	for kind, make := range kinds {
		first, second := object(kind, "a", "first", 1, make()), object(kind, "a", "second", 2, make())
		m := meshOf([]*Object{first, second}, in("a", "x.test"))
		moved := *second
		moved.Origin = Origin{File: "f", Line: 77}
		next, ok := m.With(nil, []*Object{&moved})
		if !ok {
			t.Errorf("a %s that moved is not taken", kind)
			continue
		}
		at := func(m *Mesh) (lines []string) {
			for _, n := range m.Notes() {
				lines = append(lines, fmt.Sprint(n.Meta.Name, " ", n.Code, " ", n.Meta.Origin.Line))
			}
			return lines
		}
		whole := meshOf([]*Object{first, &moved}, in("a", "x.test"))
		if got, want := at(next), at(whole); !slices.Equal(got, want) || kind != "Gateway" && !slices.Contains(want, fmt.Sprint("second ", Conflict, " 77")) {
			t.Errorf("%s: notes are at %v, want %v", kind, got, want)
		}
		moved.Labels = map[string]string{"a": "b"}
		if _, ok := m.With(nil, []*Object{&moved}); ok && kind != "VirtualService" {
			t.Errorf("a %s with other labels is taken", kind)
		}
	}
}
