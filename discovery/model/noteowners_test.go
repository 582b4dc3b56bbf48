package model

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"
)

// codesOf describes notes: "code Kind/namespace/name field".
func codesOf(notes []Note) string {
	var out []string
	for _, n := range notes {
		out = append(out, strings.TrimSpace(string(n.Code)+" "+n.Meta.Key()+" "+n.Path))
	}
	return strings.Join(out, "; ")
}

// What decides over another namespace is named to both owners, and what is private or the root namespace's is not.
func TestNotesOfForeignOwners(t *testing.T) {
	rules := func(namespace string, hosts []string, exportTo ...string) *Object {
		return object("VirtualService", namespace, "v", 2, &networking.VirtualService{Hosts: hosts, ExportTo: exportTo, Http: []*networking.HTTPRoute{{}}})
	}
	entry := func(namespace, address string) *Object {
		return object("ServiceEntry", namespace, "e", 2, &networking.ServiceEntry{
			Hosts: []string{"e.test"}, Resolution: networking.ServiceEntry_STATIC, Endpoints: []*networking.WorkloadEntry{{Address: address}},
			Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		})
	}
	address := func(namespace, protocol, address string) *Object {
		return object("ServiceEntry", namespace, "e", 2, &networking.ServiceEntry{
			Hosts: []string{"e.test"}, Addresses: []string{address}, Resolution: networking.ServiceEntry_STATIC,
			Endpoints: []*networking.WorkloadEntry{{Address: "192.0.2.1"}},
			Ports:     []*networking.ServicePort{{Number: 80, Name: "p", Protocol: protocol}},
		})
	}
	workload := object("WorkloadEntry", "tenant", "w", 2, &networking.WorkloadEntry{Address: "10.0.0.1"})
	host := "a.shop.svc.cluster.local"
	for name, test := range map[string]struct {
		object *Object
		want   string
	}{
		"a Service's own namespace":         {rules("shop", []string{"a"}), ""},
		"another namespace's Service":       {rules("tenant", []string{host}), "foreign-host Service/shop/a; foreign-host VirtualService/tenant/v spec.hosts[0]"},
		"for the own clients":               {rules("tenant", []string{host}, "."), ""},
		"for the own clients, by name":      {rules("tenant", []string{host}, "tenant"), ""},
		"for one other namespace":           {rules("tenant", []string{host}, "shop"), "foreign-host Service/shop/a; foreign-host VirtualService/tenant/v spec.hosts[0]"},
		"of the mesh's owner":               {rules("istio-system", []string{host}), ""},
		"every Service":                     {rules("tenant", []string{"*.svc.cluster.local"}), "foreign-host VirtualService/tenant/v spec.hosts[0]"},
		"another's declared host":           {rules("tenant", []string{"declared.test"}), "foreign-host Service/shop/declared.test; foreign-host VirtualService/tenant/v spec.hosts[0]"},
		"a host that both declare":          {rules("tenant", []string{"both.test"}), "foreign-host Service/shop/both.test; foreign-host VirtualService/tenant/v spec.hosts[0]"},
		"an address of a Service":           {address("tenant", "TCP", "10.96.0.1"), "taken-address Service/shop/a; taken-address ServiceEntry/tenant/e spec.addresses[0]"},
		"a range with a Service":            {address("tenant", "TCP", "10.96.0.0/16"), "taken-address Service/shop/a; taken-address ServiceEntry/tenant/e spec.addresses[0]"},
		"a Pod's own address":               {address("tenant", "TCP", "10.0.0.1"), "taken-address Pod/shop/a-1; taken-address ServiceEntry/tenant/e spec.addresses[0]"},
		"an address at an HTTP port":        {address("tenant", "HTTP", "10.96.0.1"), ""},
		"an address by its own namespace":   {address("shop", "TCP", "10.96.0.1"), ""},
		"an address by the mesh's owner":    {address("istio-system", "TCP", "10.96.0.1"), ""},
		"a node's address":                  {address("tenant", "TCP", "10.0.0.2"), ""},
		"another namespace's Pod":           {entry("tenant", "10.0.0.1"), "foreign-address Pod/shop/a-1; foreign-address ServiceEntry/tenant/e spec.endpoints[0].address"},
		"the own Pod":                       {entry("shop", "10.0.0.1"), ""},
		"a node":                            {entry("tenant", "10.0.0.2"), ""},
		"an address of the own and another": {entry("tenant", "10.0.0.3"), ""},
		"a WorkloadEntry":                   {workload, "foreign-address Pod/shop/a-1; foreign-address WorkloadEntry/tenant/w spec.address"},
	} {
		t.Run(name, func(t *testing.T) {
			a, declared, both, own := in("shop", host), in("shop", "declared.test"), in("shop", "both.test"), in("tenant", "both.test")
			a.Registry, a.Name, a.Addresses = "Kubernetes", "a", []string{"10.96.0.1"}
			pod := func(namespace, name, address string, onNode bool) *Workload {
				return &Workload{Registry: "Kubernetes", Namespace: namespace, Name: name, Addresses: []string{address}, OnNode: onNode}
			}
			m := New(slices.Values([]Group{{
				Services: []*Service{a, declared, both, own}, Objects: []*Object{test.object},
				Workloads: []*Workload{pod("shop", "a-1", "10.0.0.1", false), pod("shop", "proxy", "10.0.0.2", true), pod("shop", "b", "10.0.0.3", false), pod("tenant", "b", "10.0.0.3", false)},
			}}))
			if got := codesOf(m.Notes()); got != test.want {
				t.Errorf("noted are %q, want %q", got, test.want)
			}
		})
	}
}

func TestNotesOfGatewayHosts(t *testing.T) {
	gateway := object("Gateway", "edge", "g", 1, &networking.Gateway{Servers: []*networking.Server{
		{Port: &networking.Port{Number: 80, Protocol: "HTTP"}, Hosts: []string{"shop/*.shop.test", "Open.test", "./own.test"}},
	}})
	for host, want := range map[string]string{
		"open.test": "", "a.shop.test": "", "*.test": "", "*.a.shop.test": "",
		"shop.test": "unserved-host VirtualService/shop/v spec.hosts[0]", "own.test": "unserved-host VirtualService/shop/v spec.hosts[0]",
	} {
		v := object("VirtualService", "shop", "v", 2, &networking.VirtualService{Hosts: []string{host}, Gateways: []string{"edge/g"}, Http: []*networking.HTTPRoute{{}}})
		if got := codesOf(meshOf([]*Object{gateway, v}).Notes()); got != want {
			t.Errorf("%s: noted are %q, want %q", host, got, want)
		}
	}
}

// A selector that fits endpoints and no connected proxy is named, and so are proxies without labels. Without a proxy
// that could be selected nothing is known.
func TestNotesOfSelectorsAndProxies(t *testing.T) {
	s := in("shop", "a.shop.svc.cluster.local")
	s.Endpoints = []Endpoint{{Address: "10.0.0.1", Labels: map[string]string{"app": "a"}}}
	labels := map[string]string{"app": "a"}
	sidecar := object("Sidecar", "shop", "s", 1, &networking.Sidecar{WorkloadSelector: &networking.WorkloadSelector{Labels: labels}})
	gateway := object("Gateway", "shop", "g", 1, &networking.Gateway{Selector: labels})
	policy := object("DestinationRule", "shop", "d", 1, &networking.DestinationRule{
		Host: s.Host, WorkloadSelector: &typev1beta1.WorkloadSelector{MatchLabels: labels},
	})
	proxy := func(namespace string, gateway bool, app string) Proxy {
		w := Proxy{Namespace: namespace, Gateway: gateway}
		if app != "" {
			w.Labels = map[string]string{"app": app}
		}
		return w
	}
	for name, test := range map[string]struct {
		object    *Object
		connected []Proxy
		want      string
	}{
		"nobody":                   {sidecar, nil, ""},
		"the one":                  {sidecar, []Proxy{proxy("shop", false, "a"), proxy("shop", false, "b")}, ""},
		"another one":              {sidecar, []Proxy{proxy("shop", false, "b")}, "no-proxy Sidecar/shop/s spec.workloadSelector.labels"},
		"of another namespace":     {sidecar, []Proxy{proxy("other", false, "b")}, ""},
		"without labels":           {sidecar, []Proxy{proxy("shop", false, "")}, "no-labels Sidecar/shop/s spec.workloadSelector.labels"},
		"a gateway has no Sidecar": {sidecar, []Proxy{proxy("shop", true, "b")}, ""},
		"a gateway's policy":       {policy, []Proxy{proxy("shop", true, "a"), proxy("shop", false, "b")}, ""},
		"nobody's policy":          {policy, []Proxy{proxy("shop", true, "b")}, "no-proxy DestinationRule/shop/d spec.workloadSelector.matchLabels"},
		"a gateway":                {gateway, []Proxy{proxy("edge", true, "a")}, ""},
		"another gateway":          {gateway, []Proxy{proxy("edge", true, "b")}, "no-proxy Gateway/shop/g spec.selector"},
		"a sidecar for a gateway":  {gateway, []Proxy{proxy("shop", false, "b")}, ""},
		"a gateway without labels": {gateway, []Proxy{proxy("edge", true, "a"), proxy("edge", true, "")}, "no-labels Gateway/shop/g spec.selector"},
	} {
		if got := codesOf(meshOf([]*Object{test.object}, s).Notes(test.connected...)); got != test.want {
			t.Errorf("%s: noted are %q, want %q", name, got, test.want)
		}
	}
}

// TLS to the HTTP port of a connected sidecar that takes plain text there is named.
func TestNotesOfTLSToPlain(t *testing.T) {
	const istioMutual, off = networking.ClientTLSSettings_ISTIO_MUTUAL, networking.ClientTLSSettings_DISABLE
	ingress := func(tls *networking.ServerTLSSettings) *Object {
		return object("Sidecar", "shop", "s", 1, &networking.Sidecar{Ingress: []*networking.IstioIngressListener{{
			Port: &networking.SidecarPort{Number: 8080, Protocol: "HTTP"}, DefaultEndpoint: "127.0.0.1:9000", Tls: tls,
		}}})
	}
	at := []Proxy{{Namespace: "shop", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}}
	gateway := []Proxy{{Namespace: "shop", Gateway: true, Addresses: at[0].Addresses}}
	for name, test := range map[string]struct {
		mode      networking.ClientTLSSettings_TLSmode
		protocol  Protocol
		connected []Proxy
		more      []*Object
		want      bool
	}{
		"nobody is connected":     {istioMutual, HTTP, nil, nil, false},
		"a sidecar":               {istioMutual, HTTP, at, nil, true},
		"simple":                  {networking.ClientTLSSettings_SIMPLE, GRPC, at, nil, true},
		"without TLS":             {off, HTTP, at, nil, false},
		"a port of TLS":           {istioMutual, HTTPS, at, nil, false},
		"bytes":                   {istioMutual, TCP, at, nil, false},
		"a gateway":               {istioMutual, HTTP, gateway, nil, false},
		"a Sidecar with TLS":      {istioMutual, HTTP, at, []*Object{ingress(&networking.ServerTLSSettings{})}, false},
		"a Sidecar in plain text": {istioMutual, HTTP, at, []*Object{ingress(nil)}, true},
	} {
		s := in("shop", "a.shop.svc.cluster.local")
		s.Ports = []Port{{Name: "p", Number: 80, Target: 8080, Protocol: test.protocol}}
		s.Endpoints = []Endpoint{{Address: "10.0.0.1"}}
		rule := object("DestinationRule", "shop", "d", 2, &networking.DestinationRule{
			Host: s.Host, TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: test.mode}},
		})
		notes := meshOf(append(test.more, rule), s).Notes(test.connected...)
		got := slices.ContainsFunc(notes, func(n Note) bool { return n.Code == TLSToPlain && n.Path == "spec.trafficPolicy.tls" })
		if got != test.want {
			t.Errorf("%s: noted %t, want %t: %s", name, got, test.want, codesOf(notes))
		}
	}
}
