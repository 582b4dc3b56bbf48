package model

import (
	"fmt"
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

func server(port uint32, protocol, credential string, hosts ...string) *networking.Server {
	s := &networking.Server{Port: &networking.Port{Number: port, Protocol: protocol, Name: protocol}, Hosts: hosts}
	if credential != "" {
		s.Tls = &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: credential}
	}
	return s
}

func gatewayOf(name string, selector map[string]string, servers ...*networking.Server) *Object {
	return object("Gateway", "edge", name, 1, &networking.Gateway{Selector: selector, Servers: servers})
}

// What several objects do to the same workloads is named, and what they do to different ones is not.
func TestNotesOfTheSameWorkloads(t *testing.T) {
	wide, narrow, other := map[string]string{"app": "gw"}, map[string]string{"app": "gw", "at": "edge"}, map[string]string{"app": "x"}
	door := in("edge", "gw.edge.svc.cluster.local")
	door.Registry, door.Selector = "Kubernetes", wide
	door.Ports = []Port{{Name: "http", Number: 80, Target: 8080, Protocol: HTTP}}
	pods := []*Workload{
		{Registry: "Kubernetes", Namespace: "edge", Name: "gw-1", Labels: narrow, Addresses: []string{"10.0.0.1"}},
		{Registry: "Kubernetes", Namespace: "edge", Name: "x-1", Labels: other, Addresses: []string{"10.0.0.2"}},
	}
	sidecar := func(name string, labels map[string]string) *Object {
		return object("Sidecar", "edge", name, 1, &networking.Sidecar{WorkloadSelector: &networking.WorkloadSelector{Labels: labels}})
	}
	for name, test := range map[string]struct {
		objects []*Object
		want    string
	}{
		"the Service's port":                {[]*Object{gatewayOf("a", wide, server(80, "HTTP", "", "a.test"))}, ""},
		"the Service's target":              {[]*Object{gatewayOf("a", wide, server(8080, "HTTP", "", "a.test"))}, ""},
		"a port of no Service":              {[]*Object{gatewayOf("a", wide, server(81, "HTTP", "", "a.test"))}, "no-service-port Gateway/edge/a spec.servers[0].port.number"},
		"workloads without a Service":       {[]*Object{gatewayOf("a", other, server(81, "HTTP", "", "a.test"))}, ""},
		"one port, two kinds":               {[]*Object{gatewayOf("a", narrow, server(80, "HTTP", "", "a.test")), gatewayOf("b", wide, server(80, "TCP", "", "b.test"))}, "conflict Gateway/edge/b spec.servers[0]"},
		"one port, two kinds, apart":        {[]*Object{gatewayOf("a", other, server(80, "HTTP", "", "a.test")), gatewayOf("b", wide, server(80, "TCP", "", "b.test"))}, ""},
		"TCP twice":                         {[]*Object{gatewayOf("a", wide, server(80, "TCP", "", "a.test")), gatewayOf("b", wide, server(80, "TCP", "", "b.test"))}, "conflict Gateway/edge/b spec.servers[0]"},
		"a certificate twice":               {[]*Object{gatewayOf("a", wide, server(80, "HTTPS", "c", "a.test")), gatewayOf("b", narrow, server(80, "HTTPS", "c", "b.test"))}, "shared-cert Gateway/edge/b spec.servers[0].tls.credentialName"},
		"a certificate at two ports":        {[]*Object{gatewayOf("a", wide, server(80, "HTTPS", "c", "a.test")), gatewayOf("b", narrow, server(8080, "HTTPS", "c", "b.test"))}, ""},
		"a certificate of two selectors":    {[]*Object{gatewayOf("a", other, server(80, "HTTPS", "c", "a.test")), gatewayOf("b", narrow, server(80, "HTTPS", "c", "b.test"))}, ""},
		"a certificate of one Gateway":      {[]*Object{gatewayOf("a", wide, server(80, "HTTPS", "c", "a.test"), server(80, "HTTPS", "c", "b.test"))}, ""},
		"two Sidecars of one workload":      {[]*Object{sidecar("a", wide), sidecar("b", map[string]string{"at": "edge"})}, "conflict Sidecar/edge/b spec.workloadSelector"},
		"two Sidecars with one selector":    {[]*Object{sidecar("a", wide), sidecar("b", wide)}, "conflict Sidecar/edge/b spec"},
		"two Sidecars of different ones":    {[]*Object{sidecar("a", wide), sidecar("b", other)}, ""},
		"a Sidecar of a workload with more": {[]*Object{sidecar("a", narrow)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values([]Group{{Services: []*Service{door}, Workloads: pods, Objects: test.objects}}))
			if got := codesOf(m.Notes()); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A destination without one of several ports, and one that its clients do not see, are named.
func TestNotesOfDestinations(t *testing.T) {
	two, hidden := in("shop", "two.shop.svc.cluster.local"), in("other", "hidden.other.svc.cluster.local", ".")
	two.Ports = append(two.Ports, Port{Name: "more", Number: 81, Protocol: HTTP})
	rule := func(host, to string, port uint32, gateways ...string) *Object {
		d := &networking.Destination{Host: to}
		if port != 0 {
			d.Port = &networking.PortSelector{Number: port}
		}
		return object("VirtualService", "shop", "v", 1, &networking.VirtualService{Hosts: []string{host}, Gateways: gateways, Http: []*networking.HTTPRoute{
			{Route: []*networking.HTTPRouteDestination{{Destination: d}}},
		}})
	}
	const at = "VirtualService/shop/v spec.http[0].route[0].destination."
	for name, test := range map[string]struct {
		object *Object
		want   string
	}{
		"one of the ports":       {rule("a.test", "two", 81), ""},
		"none of the ports":      {rule("a.test", "two", 0), "any-port " + at + "port"},
		"that clients dial":      {rule("two", "two", 0), ""},
		"not seen":               {rule("a.test", hidden.Host, 80), "unknown-host " + at + "host"},
		"not seen, at a gateway": {rule("a.test", hidden.Host, 80, "gw"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			gw := object("Gateway", "shop", "gw", 1, &networking.Gateway{Servers: []*networking.Server{server(80, "HTTP", "", "*")}})
			if got := codesOf(meshOf([]*Object{test.object, gw}, two, hidden).Notes()); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	subset := object("DestinationRule", "shop", "d", 1, &networking.DestinationRule{Host: "a", Subsets: []*networking.Subset{{Name: "v1"}}})
	route := rule("x.test", "a", 0)
	route.Spec.(*networking.VirtualService).Http[0].Route[0].Destination.Subset = "v2"
	if got := codesOf(meshOf([]*Object{subset, route}).Notes()); got != "unknown-subset "+at+"subset" {
		t.Errorf("without services: got %q", got)
	}
}

// A note of an unknown subset says which there are, or that one is missing.
func TestUnknownSubsetSaysWhichThereAre(t *testing.T) {
	rule := func(n int) *Object {
		d := &networking.DestinationRule{Host: "a"}
		for i := range n {
			d.Subsets = append(d.Subsets, &networking.Subset{Name: fmt.Sprintf("v%02d", n-i)})
		}
		return object("DestinationRule", "shop", "d", 1, d)
	}
	route := object("VirtualService", "shop", "v", 1, &networking.VirtualService{Hosts: []string{"a"}, Http: []*networking.HTTPRoute{
		{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "a", Subset: "x"}}}},
	}})
	a := &Service{Right: RightFull, Host: "a.shop.svc.cluster.local", Namespace: "shop", Ports: []Port{{Number: 80}}}
	for n, want := range map[int]string{
		0:  "want a DestinationRule of it that has this subset, or a destination without one",
		2:  "it has v01, v02",
		12: "it has v01, v02, v03, v04, v05, v06, v07, v08, v09, v10 and 2 more",
	} {
		var got []string
		for _, note := range meshOf([]*Object{rule(n), route}, a).Notes() {
			if note.Code == UnknownSubset {
				got = append(got, note.Message)
			}
		}
		if want := "no DestinationRule of a.shop.svc.cluster.local has a subset x: requests are answered 503; " + want; len(got) != 1 || got[0] != want {
			t.Errorf("%d subsets: got %q, want %q", n, got, want)
		}
	}
}

// Selectors are compared with a bounded number of workloads.
func TestSelectedWorkloadsAreBounded(t *testing.T) {
	var all []*Workload
	for i := range 2 * maxSelected {
		all = append(all, &Workload{Namespace: "n", Name: fmt.Sprint(i), Labels: map[string]string{"app": "a", "hash": fmt.Sprint(i)}})
	}
	m := New(slices.Values([]Group{{Workloads: all}}))
	s := selected{mesh: m}
	if got := len(s.workloads("", map[string]string{"app": "a"})); got != maxSelected {
		t.Errorf("%d workloads", got)
	}
	if got := len(s.workloads("n", map[string]string{"app": "a", "hash": "7"})); got != 1 {
		t.Errorf("%d workloads of one hash", got)
	}
}
