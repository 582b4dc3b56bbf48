package model

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

func TestLosses(t *testing.T) {
	service := func(host string, addresses ...string) Group {
		s := &Service{Right: RightFull, Host: host}
		for _, address := range addresses {
			s.Endpoints = append(s.Endpoints, Endpoint{Address: address})
		}
		return Group{Services: []*Service{s}}
	}
	entry := func(host string) Group {
		return Group{Objects: []*Object{{Meta: Meta{Kind: "ServiceEntry"}, Spec: &networking.ServiceEntry{Hosts: []string{host}}}}}
	}
	rule := Group{Objects: []*Object{{Meta: Meta{Kind: "VirtualService"}, Spec: &networking.VirtualService{}}}}
	times := func(n int, group func(host string) Group) (out []Group) {
		for i := range n {
			out = append(out, group(fmt.Sprint("h", i)))
		}
		return out
	}
	hosts := func(n int) []Group { return times(n, func(host string) Group { return service(host) }) }
	rules := func(n int) []Group { return times(n, func(string) Group { return rule }) }
	for name, test := range map[string]struct {
		stay, leave []Group
		next        Group
		beside      []Group
		all         bool // measured against the whole mesh
		want        string
	}{
		"nothing":                             {want: ""},
		"half of the hosts":                   {stay: hosts(6)[3:], leave: hosts(3), want: ""},
		"most hosts":                          {stay: hosts(5)[3:], leave: hosts(3), want: "3 of 5 hosts"},
		"a host that a group has which stays": {stay: append(hosts(5)[3:], service("h0")), leave: hosts(3), want: ""},
		"a host that another source has":      {stay: hosts(5)[3:], leave: hosts(3), beside: hosts(1), want: ""},
		"other hosts of another source":       {stay: hosts(5)[3:], leave: hosts(3), beside: times(9, func(h string) Group { return service("x" + h) }), want: "3 of 5 hosts"},
		"the same, against the whole mesh":    {stay: hosts(5)[3:], leave: hosts(3), beside: times(9, func(h string) Group { return service("x" + h) }), all: true, want: ""},
		"most objects of a kind":              {stay: rules(1), leave: rules(9), want: ""},
		"all of a kind":                       {stay: hosts(1), leave: rules(3), want: "all 3 objects of kind VirtualService"},
		"all two of a kind":                   {leave: rules(2), want: ""},
		"all of a kind, another source's":     {leave: rules(3), beside: rules(1), want: "all 3 objects of kind VirtualService"},
		"all of a kind, against the mesh":     {leave: rules(3), beside: rules(1), all: true, want: ""},
		"entries":                             {leave: times(3, entry), want: "3 of 3 hosts, all 3 objects of kind ServiceEntry"},
		"endpoints, of a record that lapses":  {leave: []Group{service("a", "1", "2", "3", "4")}, next: service("a", "1"), want: "3 of 4 endpoints"},
		"half of them":                        {leave: []Group{service("a", "1", "2", "3", "4", "5", "6")}, next: service("a", "1", "2", "3"), want: ""},
		"endpoints, of a service that goes":   {leave: []Group{service("a", "1", "2", "3", "4")}, want: ""},
	} {
		var l Losses
		of, other := NewCensus(), NewCensus()
		for _, g := range test.stay {
			of.Count(g, 1)
		}
		for _, g := range test.leave {
			of.Count(g, 1)
			l.Add(g, test.next)
		}
		for _, g := range test.beside {
			other.Count(g, 1)
		}
		if got := l.Mass("hosts", of, []*Census{other}, test.all); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
