package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

func meshOf(objects []*Object, services ...*Service) *Mesh {
	return New(slices.Values([]Group{{Services: services, Objects: objects}}))
}

func object(kind, namespace, name string, day int, spec any) *Object {
	return &Object{Meta: Meta{Kind: kind, Namespace: namespace, Name: name, Created: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)}, Spec: spec}
}

func in(namespace, host string, exportTo ...string) *Service {
	return &Service{Right: RightFull, Host: host, Namespace: namespace, ExportTo: exportTo, Ports: []Port{{Name: "http", Number: 80, Protocol: HTTP}}}
}

func TestNames(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{ParseLocality("a/b/c").String(), "a/b/c"},
		{ParseLocality("a").String(), "a"},
		{fmt.Sprint(HostMatches("*.a.com", "b.a.com"), HostMatches("*.a.com", "a.com"), HostMatches("*", "a"),
			HostMatches("*.com", "*.a.com")), "true false true true"},
		{string(DetectProtocol("", "grpc-web-a", 1)), "GRPC-WEB"},
		{string(DetectProtocol("kubernetes.io/h2c", "http", 1)), "HTTP2"},
		{string(DetectProtocol("", "http2-a", 1)), "HTTP2"},
		{string(DetectProtocol("", "a", 3306)), "TCP"},
		{string(DetectProtocol("", "a", 80)), ""},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func TestScopeServices(t *testing.T) {
	services := []*Service{
		in("a", "public.test"), in("a", "own.test", "."), in("a", "for-b.test", "b"), in("a", "nobody.test", "~"),
		in("a", "both.test"), in("b", "both.test"),
	}
	sidecar := func(hosts ...string) []*Object {
		return []*Object{object("Sidecar", "b", "s", 1, &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: hosts}}})}
	}
	for name, test := range map[string]struct {
		objects []*Object
		from    string
		want    string
	}{
		"one's own":              {nil, "a", "both.test/a own.test/a public.test/a"},
		"another's":              {nil, "b", "both.test/b for-b.test/a public.test/a"},
		"a third":                {nil, "c", "both.test/a public.test/a"},
		"a Sidecar's namespace":  {sidecar("./*"), "b", "both.test/b"},
		"a Sidecar's host":       {sidecar("*/public.test"), "b", "public.test/a"},
		"a Sidecar's wildcard":   {sidecar("a/*.test"), "b", "both.test/a for-b.test/a public.test/a"},
		"a Sidecar of another's": {sidecar("./*"), "c", "both.test/a public.test/a"},
		"nothing":                {sidecar("~/*"), "b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range meshOf(test.objects, services...).Scope(test.from, nil).Services() {
				got = append(got, s.Host+"/"+s.Namespace)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("sees %q, want %q", strings.Join(got, " "), test.want)
			}
		})
	}
}

func TestDestinationRuleOfAService(t *testing.T) {
	rule := func(namespace, name, host string, day int, subsets ...string) *Object {
		spec := &networking.DestinationRule{Host: host}
		for _, s := range append(subsets, name) {
			spec.Subsets = append(spec.Subsets, &networking.Subset{Name: s})
		}
		return object("DestinationRule", namespace, name, day, spec)
	}
	for name, test := range map[string]struct {
		objects []*Object
		want    string // its subsets
	}{
		"none":                      {nil, ""},
		"the service's namespace":   {[]*Object{rule("server", "a", "x.test", 1)}, "a"},
		"the client's goes before":  {[]*Object{rule("server", "a", "x.test", 1), rule("client", "b", "x.test", 2)}, "b"},
		"the root's comes last":     {[]*Object{rule("istio-system", "a", "*.test", 1), rule("server", "b", "*", 2)}, "b"},
		"the root's":                {[]*Object{rule("istio-system", "a", "*.test", 1)}, "a"},
		"another's is none of ours": {[]*Object{rule("other", "a", "x.test", 1)}, ""},
		"the narrowest host":        {[]*Object{rule("server", "a", "*.test", 1), rule("server", "b", "x.test", 2)}, "b"},
		"two for a host are one": {[]*Object{
			rule("server", "b", "x.test", 2, "s"),
			rule("server", "a", "x.test", 1, "s"),
		}, "s a b"},
		"not exported to the client's":   {[]*Object{private(rule("server", "a", "x.test", 1))}, ""},
		"its own need not be exported":   {[]*Object{private(rule("client", "a", "x.test", 1))}, "a"},
		"short names are the rule's own": {[]*Object{rule("server", "a", "x", 1)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := in("server", "x.test")
			var got []string
			for _, subset := range meshOf(test.objects, s).Scope("client", nil).DestinationRule(s).GetSubsets() {
				got = append(got, subset.Name)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got subsets %q, want %q", strings.Join(got, " "), test.want)
			}
		})
	}
}

func private(o *Object) *Object {
	o.Spec.(*networking.DestinationRule).ExportTo = []string{"."}
	return o
}

func TestDelegates(t *testing.T) {
	prefix := func(s string) []*networking.HTTPMatchRequest {
		return []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: s}}}}
	}
	root := object("VirtualService", "a", "root", 1, &networking.VirtualService{Hosts: []string{"x.test"}, Http: []*networking.HTTPRoute{
		{Name: "r", Match: prefix("/a"), Delegate: &networking.Delegate{Name: "child", Namespace: "b"}},
		{Name: "missing", Delegate: &networking.Delegate{Name: "nobody"}},
		{Name: "last"},
	}})
	child := object("VirtualService", "b", "child", 1, &networking.VirtualService{Http: []*networking.HTTPRoute{
		{
			Name: "narrower", Match: prefix("/a/b"),
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "own"}}},
		},
		{Name: "elsewhere", Match: prefix("/c")},
		{Name: "all"},
	}})
	m := meshOf([]*Object{root, child})
	var got []string
	for _, r := range m.Scope("a", nil).Egress()[0].Rules.For("x.test").Spec.Http {
		text := r.Name
		for _, match := range r.Match {
			text += " " + match.GetUri().GetPrefix()
		}
		for _, d := range r.Route {
			text += " " + d.Destination.Host
		}
		got = append(got, text)
	}
	want := "r-narrower /a/b own.b.svc.cluster.local, r-all /a, last"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
	}
	next := m.Next(slices.Values([]Group{{Objects: []*Object{root, child}}}))
	if next.virtualServices[0] != m.virtualServices[0] {
		t.Error("the same objects are resolved again")
	}
}
