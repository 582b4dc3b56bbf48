package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

const corp Domain = "corp.example"

func TestParseDomain(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, test := range []struct{ text, want, fault string }{
		{"cluster.local", "cluster.local", ""},
		{"corp.example", "corp.example", ""},
		{"Corp.Example", "corp.example", ""},
		{"corp.example.", "corp.example", ""},
		{"local", "local", ""},
		{"1.2.test", "1.2.test", ""},
		{"eu-1.corp", "eu-1.corp", ""},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", ""},
		{"prod.svc.corp.example", "prod.svc.corp.example", ""}, // a company may have the zone svc.corp.example
		{"svcs.corp", "svcs.corp", ""},
		{long + ".test", long + ".test", ""},
		{"", "", `is "", want a DNS domain such as cluster.local`},
		{".", "", "want a DNS domain"},
		{"corp.example..", "", "want a DNS domain"},
		{".corp.example", "", "want a DNS domain"},
		{"corp..example", "", "want a DNS domain"},
		{"corp example", "", "want a DNS domain"},
		{" corp.example", "", "want a DNS domain"},
		{"corp.example\n", "", "want a DNS domain"},
		{"-corp.example", "", "want a DNS domain"},
		{"corp-.example", "", "want a DNS domain"},
		{"corp_a.example", "", "want a DNS domain"},
		{"*.example", "", "want a DNS domain"},
		{"a~b", "", "want a DNS domain"},
		{"a:80", "", "want a DNS domain"},
		{"bücher.example", "", "want a DNS domain"},
		{"\u212a.example", "", "want a DNS domain"}, // the sign of Kelvin, whose lower case is k
		{long + "a.test", "", "want a DNS domain"},
		{strings.Repeat(long+".", 4) + "test", "", "want a DNS domain"},
		{"svc.corp.example", "", `is "svc.corp.example", want only the part after svc: corp.example`},
		{"default.svc.cluster.local", "", `want only the part after svc: cluster.local`},
		{"SVC.Cluster.Local.", "", `want only the part after svc: cluster.local`},
	} {
		got, err := ParseDomain(test.text)
		if string(got) != test.want || (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%q is %q and %v, want %q and %q", test.text, got, err, test.want, test.fault)
		}
	}
}

func TestDomainOfNames(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Domain("").String(), "cluster.local"},
		{Domain("").Qualify("reviews", "shop"), "reviews.shop.svc.cluster.local"},
		{DefaultDomain.Qualify("Reviews", "shop"), "reviews.shop.svc.cluster.local"},
		{corp.Qualify("reviews", "shop"), "reviews.shop.svc.corp.example"},
		{corp.Qualify("reviews.shop", "shop"), "reviews.shop"},
		{corp.Qualify("reviews.shop.svc", "shop"), "reviews.shop.svc"},
		{corp.Qualify("Reviews.shop.svc.Cluster.local", "shop"), "reviews.shop.svc.cluster.local"},
		{corp.Qualify("*", "shop"), "*"},
		{corp.Qualify("*.test", "shop"), "*.test"},
		{corp.Qualify("::1", "shop"), "::1"},
		{corp.Qualify("", "shop"), ""},
		{corp.Host("reviews", "shop"), "reviews.shop.svc.corp.example"},
		{corp.QualifyGateway("gw", "shop"), "shop/gw"},
		{corp.QualifyGateway("gw.other", "shop"), "other/gw"},
		{corp.QualifyGateway("gw.other.svc.corp.example", "shop"), "other/gw"},
		{corp.QualifyGateway("gw.other.svc.cluster.local", "shop"), "other.svc.cluster.local/gw"},
		{corp.QualifyGateway("other/gw", "shop"), "other/gw"},
		{corp.QualifyGateway("mesh", "shop"), "mesh"},
		{fmt.Sprint(corp.has("a.b.svc.corp.example"), corp.has("a.bsvc.corp.example"), corp.has("a.b.svc.x.corp.example"),
			corp.has("a.b.svc.cluster.local"), corp.has("corp.example"), corp.has("")), "true false false false false false"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

// Every short name in an object is a service of the mesh's domain, in each generation.
func TestDomainOfAMesh(t *testing.T) {
	route := func(host string) *networking.VirtualService {
		to := func(host string) *networking.Destination { return &networking.Destination{Host: host} }
		return &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{{
			Route:  []*networking.HTTPRouteDestination{{Destination: to("to")}},
			Mirror: to("mirror"), Mirrors: []*networking.HTTPMirrorPolicy{{Destination: to("mirrors")}},
		}}}
	}
	objects := func(host string) []*Object {
		delegating := &networking.VirtualService{Hosts: []string{"root"}, Http: []*networking.HTTPRoute{{
			Delegate: &networking.Delegate{Name: "child", Namespace: "other"},
		}}}
		child := &networking.VirtualService{Http: []*networking.HTTPRoute{{
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "of-child"}}},
		}}}
		return []*Object{
			object("VirtualService", "shop", "v", 1, route(host)),
			object("VirtualService", "shop", "root", 1, delegating),
			object("VirtualService", "other", "child", 1, child),
			object("DestinationRule", "shop", "d", 1, &networking.DestinationRule{Host: "to", Subsets: []*networking.Subset{{Name: "v1"}}}),
			object("Sidecar", "shop", "s", 1, &networking.Sidecar{
				Egress:                []*networking.IstioEgressListener{{Hosts: []string{"./to"}}},
				OutboundTrafficPolicy: &networking.OutboundTrafficPolicy{EgressProxy: &networking.Destination{Host: "egress"}},
			}),
			object("MeshConfig", "istio-system", "m", 1, &meshconfig.MeshConfig{ExtensionProviders: []*meshconfig.MeshConfig_ExtensionProvider{{
				Name: "z", Provider: &meshconfig.MeshConfig_ExtensionProvider_Zipkin{
					Zipkin: &meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider{Service: "zipkin"},
				},
			}}}),
		}
	}
	services := []*Service{
		in("shop", "to.shop.svc.corp.example"), in("shop", "egress.shop.svc.corp.example"), in("shop", "other.shop.svc.corp.example"),
		in("default", "zipkin.default.svc.corp.example"), in("shop", "to.shop.svc.cluster.local"),
	}
	check := func(t *testing.T, m *Mesh, host string) {
		t.Helper()
		if got := m.Settings().Domain; got != corp {
			t.Errorf("the domain is %s", got)
		}
		var got []string
		for _, v := range m.virtualServices {
			got = append(got, v.Spec.Hosts...)
			for d := range Destinations(v.Spec) {
				got = append(got, d.Host)
			}
		}
		slices.Sort(got)
		want := []string{
			host + ".shop.svc.corp.example", "mirror.shop.svc.corp.example", "mirrors.shop.svc.corp.example",
			"of-child.other.svc.corp.example", "root.shop.svc.corp.example", "to.shop.svc.corp.example",
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("rules have %q, want %q", got, want)
		}
		got = nil
		scope := m.Scope("shop", nil)
		for _, s := range scope.Services() {
			got = append(got, s.Host)
		}
		want = []string{"egress.shop.svc.corp.example", "to.shop.svc.corp.example", "zipkin.default.svc.corp.example"}
		if !slices.Equal(got, want) {
			t.Errorf("the Sidecar shows %q, want %q", got, want)
		}
		if proxy := scope.OutboundPolicy().Proxy.GetHost(); proxy != "egress.shop.svc.corp.example" {
			t.Errorf("the egress proxy is %s", proxy)
		}
		if rule := scope.DestinationRule(m.Service("to.shop.svc.corp.example")); rule == nil {
			t.Error("the policy is not of the service")
		}
	}
	group := func(host string) []Group { return []Group{{Services: services, Objects: objects(host)}} }
	first := NewIn(corp, slices.Values(group("a")))
	check(t, first, "a")
	check(t, first.Next(slices.Values(group("b"))), "b")
	changed := objects("a")[0]
	changed.Spec.(*networking.VirtualService).Http[0].Name = "changed"
	with, ok := first.With(nil, []*Object{changed})
	if !ok {
		t.Fatal("a changed route makes the mesh anew")
	}
	check(t, with, "a")
}

// A host of another domain has a note if it is a service in the mesh's: a manifest of another cluster has such hosts.
func TestNotesOfTheDomain(t *testing.T) {
	rule := func(host, to string) *Object {
		return object("VirtualService", "shop", "v", 1, &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{{
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: to}}},
		}}})
	}
	services := []*Service{in("shop", "a.shop.svc.corp.example"), in("other", "a.other.svc.corp.example"), in("shop", "b.shop.svc.corp.example")}
	const ok = "a.shop.svc.corp.example"
	for name, test := range map[string]struct {
		object *Object
		want   string
	}{
		"short":     {rule("a", "a"), ""},
		"full":      {rule(ok, ok), ""},
		"virtual":   {rule("shop.test", ok), ""},
		"no such":   {rule("nothing-like-it", ok), "spec.hosts[0]: no service has the host nothing-like-it.shop.svc.corp.example: nobody follows these routes; want a ServiceEntry that declares it"},
		"elsewhere": {rule("nothing-like-it.shop.svc.cluster.local", ok), ""},
		"of another domain": {rule("a.shop.svc.cluster.local", ok), "spec.hosts[0]: no service has the host a.shop.svc.cluster.local: " +
			"requests for a.shop.svc.corp.example do not follow these routes; did you mean a.shop.svc.corp.example?"},
		"to another domain": {rule("a", "a.other.svc.cluster.local"), "spec.http[0].route[0].destination.host: no service has the host a.other.svc.cluster.local: " +
			"requests are answered 503; did you mean a.other.svc.corp.example?"},
		"a policy of another domain": {
			object("DestinationRule", "shop", "d", 1, &networking.DestinationRule{Host: "b.shop.svc.cluster.local"}),
			"spec.host: no service has the host b.shop.svc.cluster.local: nothing follows this policy; did you mean b.shop.svc.corp.example?",
		},
		"a short policy": {object("DestinationRule", "shop", "d", 1, &networking.DestinationRule{Host: "b"}), ""},
		"a Sidecar":      {object("Sidecar", "shop", "s", 1, &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: []string{"./a"}}}}), ""},
		"a Gateway of the domain": {object("VirtualService", "shop", "v", 1, &networking.VirtualService{
			Hosts: []string{"shop.test"}, Gateways: []string{"gw.shop.svc.corp.example"},
		}), "spec.gateways[0]: gateway shop/gw does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range NewIn(corp, slices.Values([]Group{{Services: services, Objects: []*Object{test.object}}})).Notes() {
				got = append(got, n.Path+": "+n.Message)
			}
			if strings.Join(got, "\n") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Short names are completed once in each generation and for each proxy.
func TestQualifyAllocatesTheNameOnly(t *testing.T) {
	for host, want := range map[string]float64{"reviews": 1, "reviews.shop.svc.corp.example": 0, "*": 0} {
		if got := testing.AllocsPerRun(100, func() { corp.Qualify(host, "shop") }); got > want {
			t.Errorf("%s: %v allocations, want %v", host, got, want)
		}
	}
}
