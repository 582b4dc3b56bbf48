package model

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// NamespaceAs distinguishes a namespace that any object names, and DomainAs a domain with short names.
func TestNamespaceAs(t *testing.T) {
	at := func(kind string, spec any) *Mesh { return meshOf([]*Object{object(kind, "home", "x", 1, spec)}) }
	route := func(m *networking.HTTPMatchRequest) *networking.VirtualService {
		return &networking.VirtualService{Hosts: []string{"a.test"}, Http: []*networking.HTTPRoute{{Match: []*networking.HTTPMatchRequest{m}}}}
	}
	for name, test := range map[string]struct {
		mesh    *Mesh
		special []string
	}{
		"nothing":               {meshOf(nil), nil},
		"a service":             {meshOf(nil, &Service{Right: RightFull, Host: "a.test", Namespace: "home", ExportTo: []string{"friend"}}), []string{"home", "friend"}},
		"a rule":                {at("VirtualService", route(&networking.HTTPMatchRequest{SourceNamespace: "friend"})), []string{"home", "friend"}},
		"a rule for some":       {at("VirtualService", &networking.VirtualService{Hosts: []string{"a.test"}, ExportTo: []string{"friend", "."}}), []string{"home", "friend"}},
		"a policy":              {at("DestinationRule", &networking.DestinationRule{Host: "a.test", ExportTo: []string{"friend"}}), []string{"home", "friend"}},
		"a Sidecar":             {at("Sidecar", &networking.Sidecar{}), []string{"home"}},
		"a Gateway":             {at("Gateway", &networking.Gateway{}), nil},
		"bytes from one":        {at("VirtualService", &networking.VirtualService{Hosts: []string{"a.test"}, Tcp: []*networking.TCPRoute{{Match: []*networking.L4MatchAttributes{{SourceNamespace: "friend"}}}}}), []string{"home", "friend"}},
		"TLS from one":          {at("VirtualService", &networking.VirtualService{Hosts: []string{"a.test"}, Tls: []*networking.TLSRoute{{Match: []*networking.TLSMatchAttributes{{SourceNamespace: "friend"}}}}}), []string{"home", "friend"}},
		"what is said of all":   {at("MeshConfig", &meshconfig.MeshConfig{DefaultDestinationRuleExportTo: []string{"friend"}}), []string{"friend"}},
		"services for all":      {at("MeshConfig", &meshconfig.MeshConfig{DefaultServiceExportTo: []string{"friend"}}), []string{"friend"}},
		"rules for all":         {at("MeshConfig", &meshconfig.MeshConfig{DefaultVirtualServiceExportTo: []string{"friend"}}), []string{"friend"}},
		"a workload of the own": {at("WorkloadEntry", &networking.WorkloadEntry{}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			special := map[string]bool{}
			for _, n := range test.special {
				special[n] = true
			}
			for _, n := range []string{"home", "friend", "nobody", "", Others} {
				want := Others
				if special[n] {
					want = n
				}
				if got := test.mesh.NamespaceAs(n); got != want {
					t.Errorf("%q counts as %q, want %q", n, got, want)
				}
			}
		})
	}
}

func TestDomainAs(t *testing.T) {
	m := meshOf([]*Object{
		object("VirtualService", "home", "v", 1, &networking.VirtualService{Hosts: []string{"b.rules.svc.mesh.test"}}),
	}, &Service{Right: RightFull, Host: "a.shop.svc.cluster.local", Namespace: "shop"}, &Service{Right: RightFull, Host: "*.wild.svc.cluster.local", Namespace: "shop"},
		&Service{Right: RightFull, Host: "deep.er.shop2.svc.cluster.local", Namespace: "shop"}, &Service{Right: RightFull, Host: "a.test", Namespace: "shop"}, &Service{Right: RightFull, Host: "web.service.consul", Namespace: "default"},
		&Service{Right: RightFull, Host: "*.wild.test", Namespace: "shop"})
	for domain, want := range map[string]string{
		"service.consul": "service.consul", "consul": "", "service.other": "", "wild.test": "",
		"shop.svc.cluster.local": "shop.svc.cluster.local", "nobody.svc.cluster.local": "(others).svc.cluster.local",
		"rules.svc.mesh.test": "rules.svc.mesh.test", "shop.svc.mesh.test": "(others).svc.mesh.test",
		"wild.svc.cluster.local": "(others).svc.cluster.local", "er.shop2.svc.cluster.local": "(others).svc.cluster.local",
		"shop.svc.elsewhere": "", "": "", "test": "", "svc.cluster.local": "",
	} {
		if got := m.DomainAs(domain); got != want {
			t.Errorf("%q counts as %q, want %q", domain, got, want)
		}
	}
}
