package model

import (
	"fmt"
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	"istio.io/api/networking/v1beta1"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// If two stores have an object, one of them is used, and a note on the other names it, with the place of both.
func TestAnObjectInTwoStores(t *testing.T) {
	entry := func(address string) *networking.ServiceEntry {
		return entryOf(func(e *networking.ServiceEntry) { e.Endpoints[0].Address = address }).Spec.(*networking.ServiceEntry)
	}
	from := func(o *Object, origin Origin) *Object {
		o.Origin = origin
		return o
	}
	file := Origin{File: "a.yaml", Line: 3}
	record := Origin{Record: &Record{Cluster: "east", UID: "u1"}}
	relayed := Origin{Record: &Record{Cluster: "istiod:15010", Version: "7", Relayed: true}}
	for name, test := range map[string]struct {
		groups []Group // in the order of their sources
		want   string  // x.test's endpoints, or the subsets for it
		note   string
	}{
		"the older one, from the second source": {
			[]Group{
				{Objects: []*Object{from(object("ServiceEntry", "a", "se", 2, entry("10.0.0.1")), record)}},
				{Objects: []*Object{from(object("ServiceEntry", "a", "se", 1, entry("10.0.0.2")), file)}},
			},
			"web/80/HTTP: 10.0.0.2:80", "ServiceEntry a/se at cluster east, uid u1 loses to that at a.yaml:3",
		},
		"of one age the first source's": {
			[]Group{
				{Objects: []*Object{from(object("ServiceEntry", "a", "se", 1, entry("10.0.0.1")), relayed)}},
				{Objects: []*Object{from(object("ServiceEntry", "a", "se", 1, entry("10.0.0.2")), file)}},
			},
			"web/80/HTTP: 10.0.0.1:80", "ServiceEntry a/se at a.yaml:3 loses to that at cluster istiod:15010, version 7",
		},
		"of other hosts": {
			[]Group{
				{Objects: []*Object{from(object("ServiceEntry", "a", "se", 1, entry("10.0.0.1")), file)}},
				{Objects: []*Object{from(object("ServiceEntry", "a", "se", 2, &networking.ServiceEntry{
					Hosts: []string{"y.test"}, Resolution: networking.ServiceEntry_STATIC, Ports: entry("").Ports,
				}), record)}},
			},
			"web/80/HTTP: 10.0.0.1:80", "ServiceEntry a/se at cluster east, uid u1 loses to that at a.yaml:3",
		},
		"equal ones": {
			[]Group{
				{Objects: []*Object{from(object("ServiceEntry", "a", "se", 1, entry("10.0.0.1")), file)}},
				{Objects: []*Object{from(object("ServiceEntry", "a", "se", 1, entry("10.0.0.1")), record)}},
			},
			"web/80/HTTP: 10.0.0.1:80", "ServiceEntry a/se at cluster east, uid u1 loses to that at a.yaml:3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values(test.groups))
			if got := shown(m.Service("x.test")); got != test.want || len(m.Services()) != 1 {
				t.Errorf("%d services, x.test has %s; want 1, %s", len(m.Services()), got, test.want)
			}
			var notes []string
			for _, n := range m.Notes() {
				if n.Code != Conflict || n.Path != "" || n.Other.Key() != n.Meta.Key() {
					t.Errorf("note %+v", n)
				}
				notes = append(notes, fmt.Sprintf("%s at %s loses to that at %s", title(n.Meta), n.Meta.Origin, n.Other.Origin))
			}
			if !slices.Equal(notes, []string{test.note}) {
				t.Errorf("notes are %q, want %q", notes, test.note)
			}
			if got := len(m.Objects()); got != 2 {
				t.Errorf("%d objects are shown, want both", got)
			}
		})
	}
}

func title(m Meta) string { return name(m) }

// Objects of every kind are used once.
func TestEveryKindInTwoStoresCountsOnce(t *testing.T) {
	rule := func(subset string) *networking.DestinationRule {
		return &networking.DestinationRule{Host: "x.test", Subsets: []*networking.Subset{{Name: subset}}}
	}
	route := func(host string) *networking.VirtualService {
		return &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{{Redirect: &networking.HTTPRedirect{Uri: "/"}}}}
	}
	both := func(kind string, first, second any) (one, two Group) {
		a, b := object(kind, "a", "twin", 1, first), object(kind, "a", "twin", 1, second)
		a.Origin, b.Origin = Origin{File: "a.yaml", Line: 1}, Origin{Record: &Record{Cluster: "east"}}
		return Group{Objects: []*Object{a}}, Group{Objects: []*Object{b}}
	}
	for kind, test := range map[string]struct {
		first, second any
		used          func(*Mesh) any
		want          string
	}{
		"DestinationRule": {rule("v1"), rule("v2"), func(m *Mesh) any {
			var names []string
			for _, s := range m.Scope("a", nil).DestinationRule(m.Service("x.test")).Subsets {
				names = append(names, s.Name)
			}
			return names
		}, "[v1]"},
		"VirtualService": {route("p.test"), route("q.test"), func(m *Mesh) any {
			s := m.Scope("a", nil)
			return []bool{s.Rule(0, "p.test") != nil, s.Rule(0, "q.test") != nil}
		}, "[true false]"},
		"Gateway": {&networking.Gateway{}, &networking.Gateway{}, func(m *Mesh) any { return len(m.GatewaysAt("", nil)) }, "1"},
		"WorkloadEntry": {
			&networking.WorkloadEntry{Address: "10.0.0.1", Labels: map[string]string{"app": "x"}},
			&networking.WorkloadEntry{Address: "10.0.0.2", Labels: map[string]string{"app": "x"}},
			func(m *Mesh) any { return shown(m.Service("x.test")) }, "web/80/HTTP: 10.0.0.1:80",
		},
		"ProxyConfig": {
			&v1beta1.ProxyConfig{EnvironmentVariables: map[string]string{"A": "1"}}, &v1beta1.ProxyConfig{EnvironmentVariables: map[string]string{"A": "2"}},
			func(m *Mesh) any { return m.ProxyConfig("a", nil, nil).ProxyMetadata }, "map[A:1]",
		},
		"MeshConfig": {
			&meshconfig.MeshConfig{TrustDomain: "one.test"}, &meshconfig.MeshConfig{TrustDomain: "two.test"},
			func(m *Mesh) any { return m.Settings().Config.TrustDomain }, "one.test",
		},
	} {
		t.Run(kind, func(t *testing.T) {
			one, two := both(kind, test.first, test.second)
			selecting := entryOf(func(e *networking.ServiceEntry) {
				e.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"app": "x"}}
				if kind == "WorkloadEntry" {
					e.Endpoints = nil
				}
			})
			m := New(slices.Values([]Group{one, two, {Objects: []*Object{selecting}}}))
			if got := fmt.Sprint(test.used(m)); got != test.want {
				t.Errorf("used is %s, want %s", got, test.want)
			}
			var conflicts []Meta
			for _, n := range m.Notes() {
				if n.Code == Conflict {
					conflicts = append(conflicts, n.Meta)
				}
			}
			if len(conflicts) != 1 || conflicts[0].Origin.Cluster() != "east" {
				t.Errorf("notes of conflicts are about %+v, want one about that of east", conflicts)
			}
		})
	}
}
