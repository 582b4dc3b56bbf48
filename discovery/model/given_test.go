package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// given returns a mesh with small bounds.
func boundedMesh(bounds Bounds, objects ...*Object) *Mesh {
	return NewOf(Settings{Domain: DefaultDomain, Bounds: &bounds}, slices.Values([]Group{{Objects: objects}}))
}

// entry is a ServiceEntry with ports from 80 on, of HTTP, and endpoints.
func givenEntry(namespace, name string, day, hosts, ports, endpoints int, exportTo ...string) *Object {
	s := &networking.ServiceEntry{Resolution: networking.ServiceEntry_STATIC, ExportTo: exportTo}
	for i := range hosts {
		s.Hosts = append(s.Hosts, fmt.Sprintf("%s-%d.%s.test", name, i, namespace))
	}
	for i := range ports {
		s.Ports = append(s.Ports, &networking.ServicePort{Name: fmt.Sprint("http-", i), Number: uint32(80 + i), Protocol: "HTTP"})
	}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("10.0.0.%d", i+1)})
	}
	return object("ServiceEntry", namespace, name, day, s)
}

// seenFrom returns the hosts that a namespace sees.
func seenFrom(m *Mesh, namespace string) string {
	var out []string
	for _, s := range m.Scope(namespace, nil).Services() {
		out = append(out, strings.TrimSuffix(s.Host, ".test"))
	}
	return strings.Join(out, " ")
}

// What a namespace gives to others beyond a bound is for its own proxies only, the youngest first, and is named. Other namespaces, and the
// root namespace, are not concerned.
func TestWhatANamespaceGivesIsBounded(t *testing.T) {
	wide := Bounds{100, 100, 1000, 100}
	with := func(c cost, n int) Bounds {
		out := wide
		out[c] = n
		return out
	}
	bank := givenEntry("bank", "pay", 9, 1, 1, 1)
	rule := func(name string, day, hosts, n int) *Object {
		v := &networking.VirtualService{}
		for i := range hosts {
			v.Hosts = append(v.Hosts, fmt.Sprintf("%s-%d.evil.test", name, i))
		}
		for range n {
			v.Http = append(v.Http, &networking.HTTPRoute{DirectResponse: &networking.HTTPDirectResponse{Status: 200}})
		}
		return object("VirtualService", "evil", name, day, v)
	}
	for name, row := range map[string]struct {
		bounds  Bounds
		objects []*Object
		want    string // hosts that bank sees
		notes   string
	}{
		"within":              {wide, []*Object{givenEntry("evil", "a", 1, 2, 3, 4)}, "pay-0.bank a-0.evil a-1.evil", ""},
		"one object of ports": {with(listeners, 5), []*Object{givenEntry("evil", "a", 1, 1, 6, 1)}, "pay-0.bank", "ServiceEntry/evil/a"},
		"many of other ports": {with(listeners, 5), []*Object{givenEntry("evil", "a", 1, 1, 5, 1), givenEntry("evil", "b", 2, 1, 6, 1), givenEntry("evil", "c", 3, 1, 1, 1)}, "pay-0.bank a-0.evil c-0.evil", "ServiceEntry/evil/b"},
		"the oldest first":    {with(listeners, 5), []*Object{givenEntry("evil", "a", 2, 1, 5, 1), givenEntry("evil", "b", 1, 1, 6, 1)}, "pay-0.bank a-0.evil", "ServiceEntry/evil/b"},
		"hosts":               {with(clusters, 3), []*Object{givenEntry("evil", "a", 1, 5, 1, 1)}, "pay-0.bank a-0.evil a-1.evil a-2.evil", "ServiceEntry/evil/a"},
		"hosts of objects":    {with(clusters, 2), []*Object{givenEntry("evil", "a", 1, 1, 1, 1), givenEntry("evil", "b", 2, 1, 1, 1), givenEntry("evil", "c", 3, 1, 1, 1)}, "pay-0.bank a-0.evil b-0.evil", "ServiceEntry/evil/c"},
		"hosts × ports":       {with(clusters, 5), []*Object{givenEntry("evil", "a", 1, 2, 3, 1)}, "pay-0.bank a-0.evil", "ServiceEntry/evil/a"},
		"subsets": {with(clusters, 3), []*Object{givenEntry("evil", "a", 1, 1, 1, 1), object("DestinationRule", "evil", "a", 1, &networking.DestinationRule{
			Host: "*.evil.test", Subsets: []*networking.Subset{{Name: "1"}, {Name: "2"}, {Name: "3"}},
		})}, "pay-0.bank", "ServiceEntry/evil/a"},
		"endpoints":          {with(endpoints, 9), []*Object{givenEntry("evil", "a", 1, 1, 1, 10), givenEntry("evil", "b", 2, 1, 1, 9)}, "pay-0.bank b-0.evil", "ServiceEntry/evil/a"},
		"of its own":         {with(listeners, 5), []*Object{givenEntry("evil", "a", 1, 1, 50, 1, "."), givenEntry("evil", "b", 2, 1, 1, 1)}, "pay-0.bank b-0.evil", ""},
		"of the root":        {with(listeners, 5), []*Object{givenEntry("istio-system", "a", 1, 1, 50, 1)}, "pay-0.bank a-0.istio-system", ""},
		"routes":             {with(routes, 10), []*Object{givenEntry("evil", "a", 1, 1, 1, 1), rule("r", 1, 2, 5), rule("s", 2, 1, 1)}, "pay-0.bank a-0.evil", "VirtualService/evil/s"},
		"routes × ports":     {with(routes, 10), []*Object{givenEntry("evil", "r", 1, 1, 4, 1), rule("r", 1, 1, 3)}, "pay-0.bank r-0.evil", "VirtualService/evil/r"},
		"ports of a Gateway": {with(listeners, 1), []*Object{object("Gateway", "evil", "g", 1, &networking.Gateway{Servers: []*networking.Server{{Port: &networking.Port{Number: 1}}, {Port: &networking.Port{Number: 2}}}})}, "pay-0.bank", "Gateway/evil/g"},
	} {
		t.Run(name, func(t *testing.T) {
			m := boundedMesh(row.bounds, append(row.objects, bank)...)
			sorted := func(text string) string {
				all := strings.Fields(text)
				slices.Sort(all)
				return strings.Join(all, " ")
			}
			if got := sorted(seenFrom(m, "bank")); got != sorted(row.want) {
				t.Errorf("bank sees %s, want %s", got, row.want)
			}
			if got, want := strings.Count(seenFrom(m, "evil"), ".evil"), strings.Count(seenFrom(boundedMesh(Bounds{1e9, 1e9, 1e9, 1e9}, append(row.objects, bank)...), "evil"), ".evil"); got != want {
				t.Errorf("evil sees %d of its own hosts, want %d", got, want)
			}
			var notes []string
			for _, n := range m.Notes() {
				if n.Code == TooMuch {
					notes = append(notes, n.Meta.Key())
				}
			}
			if got := strings.Join(notes, " "); got != row.notes {
				t.Errorf("notes of %q, want %q", got, row.notes)
			}
			for _, v := range m.virtualServices {
				kept := strings.Contains(row.notes, v.Key())
				if m.ruleVisible(v, "bank") == kept || !m.ruleVisible(v, "evil") {
					t.Errorf("%s is visible to bank: %v", v.Key(), !kept)
				}
			}
			for _, g := range m.gateways {
				if got := len(m.GatewaysAt("bank", nil)); got != 0 && strings.Contains(row.notes, g.Key()) || len(m.GatewaysAt("evil", nil)) != 1 {
					t.Errorf("%d Gateways at bank's", got)
				}
			}
		})
	}
}

// A change of endpoints or routes that may change what is given takes the long path, so that what is served depends on the objects only.
func TestGivenIsTheSameAfterChanges(t *testing.T) {
	bounds := Bounds{100, 100, 5, 100}
	old, young := func(n int) *Object { return givenEntry("evil", "old", 1, 1, 1, n) }, givenEntry("evil", "young", 2, 1, 1, 2)
	m := boundedMesh(bounds, old(1), young)
	for i, n := range []int{2, 3, 4, 5, 6, 4, 2, 1} {
		next, short := m.With(nil, []*Object{old(n)})
		if fits := n <= 3; short != (fits && (i == 0 || m.given.spent["evil"][endpoints] <= 5)) {
			t.Errorf("%d endpoints: the short path is %v", n, short)
		}
		if !short {
			next = m.Next(slices.Values([]Group{{Objects: []*Object{old(n), young}}}))
		}
		fresh := boundedMesh(bounds, old(n), young)
		if got, want := seenFrom(next, "bank"), seenFrom(fresh, "bank"); got != want || next.given.spent["evil"] != fresh.given.spent["evil"] {
			t.Errorf("%d endpoints: bank sees %q of %v, want %q of %v", n, got, next.given.spent, want, fresh.given.spent)
		}
		m = next
	}
}
