package model

import (
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// A host of one label of an Ingress is that name. In a VirtualService of Istio it is a service of the namespace.
func TestHostsOfOneLabel(t *testing.T) {
	for whole, want := range map[bool]string{false: "web.shop.svc.cluster.local", true: "web"} {
		spec := &networking.VirtualService{Hosts: []string{"web"}, Gateways: []string{"front"}, Http: []*networking.HTTPRoute{{
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "a"}}},
		}}}
		m := New(slices.Values([]Group{{Objects: []*Object{{Meta: Meta{Kind: "VirtualService", Namespace: "shop", Name: "web", WholeHosts: whole}, Spec: spec}}}}))
		got := m.virtualServices[0].Spec
		if !slices.Equal(got.Hosts, []string{want}) || got.Http[0].Route[0].Destination.Host != "a.shop.svc.cluster.local" || got.Gateways[0] != "shop/front" {
			t.Errorf("whole: %t: it is %v", whole, got)
		}
	}
}
