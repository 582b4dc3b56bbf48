package xds

import (
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// entryPorts returns a ServiceEntry whose ports have these numbers, alternately HTTP and TCP, and its service.
func entryPorts(host string, numbers ...uint32) (*networking.ServiceEntry, *model.Service) {
	entry := &networking.ServiceEntry{Hosts: []string{host}, Location: networking.ServiceEntry_MESH_INTERNAL}
	s := &model.Service{Right: model.RightFull, Host: host, Namespace: "default", Resolution: model.ResolutionStatic}
	for i, n := range numbers {
		protocol := []model.Protocol{model.HTTP, model.TCP}[i%2]
		name := strings.ToLower(string(protocol)) + string(rune('a'+i))
		entry.Ports = append(entry.Ports, &networking.ServicePort{Number: n, Name: name, Protocol: string(protocol)})
		s.Ports = append(s.Ports, model.Port{Number: n, Name: name, Protocol: protocol})
	}
	return entry, s
}

// A service cannot replace a proxy's own listener: Envoy accepts the configuration, and a note names the object.
func TestOwnListenersStand(t *testing.T) {
	for name, test := range map[string]struct {
		mesh    *meshconfig.MeshConfig
		ports   []uint32
		want    string // names of wildcard listeners
		refused int
	}{
		"by default":    {&meshconfig.MeshConfig{}, []uint32{15001, 15006, 15007}, "0.0.0.0_15007, virtualInbound, virtualOutbound", 2},
		"of the mesh":   {&meshconfig.MeshConfig{ProxyListenPort: 7001, ProxyInboundListenPort: 7006}, []uint32{7006, 7001, 15001}, "0.0.0.0_15001, virtualInbound, virtualOutbound", 2},
		"the other way": {&meshconfig.MeshConfig{}, []uint32{15006, 15001}, "virtualInbound, virtualOutbound", 2},
	} {
		t.Run(name, func(t *testing.T) {
			entry, s := entryPorts("a.test", test.ports...)
			m := mesh(entry, s, test.mesh)
			r := Build(m, ViewOf(proxies()["redirect"]))
			var got []string
			for _, l := range r.Listeners {
				got = append(got, l.Name)
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("listeners are %s, want %s", got, test.want)
			}
			for _, fault := range faultsOf(r) {
				t.Error(fault)
			}
			validate(t, r)
			refused := 0
			for _, n := range m.Notes() {
				if n.Code == model.ReservedPort {
					refused++
				}
			}
			if refused != test.refused {
				t.Errorf("%d ports are noted, want %d: %v", refused, test.refused, m.Notes())
			}
		})
	}
}

// An address has one listener, for all spellings of the address.
func TestOneAddressIsOneListener(t *testing.T) {
	one, two := service("one.test", model.Port{Name: "tcp", Number: 9000, Protocol: model.TCP}), service("two.test", model.Port{Name: "tcp", Number: 9000, Protocol: model.TCP})
	one.Addresses, two.Addresses = []string{"FD00:0:0::1", "fd00::1"}, []string{"fd00::0001"}
	m := mesh(one, two, &networking.Sidecar{Egress: []*networking.IstioEgressListener{
		{Port: &networking.SidecarPort{Number: 9000, Protocol: "TCP", Name: "x"}, Bind: "FD00::1", Hosts: []string{"*/*"}}, {Hosts: []string{"*/*"}},
	}})
	r := Build(m, ViewOf(proxies()["redirect"]))
	for _, fault := range faultsOf(r) {
		t.Error(fault)
	}
	i := slices.IndexFunc(r.Listeners, func(l *listenerv3.Listener) bool { return l.Name == "fd00::1_9000" })
	if i < 0 {
		t.Errorf("no listener fd00::1_9000: %v", r.Listeners)
	}
	validate(t, r)
}

// A port with TLS and without a protocol accepts no plain text.
func TestIngressWithTLSTakesNoPlainText(t *testing.T) {
	entry := ingress(9080, "", "127.0.0.1:8080")
	entry.Tls = &networking.ServerTLSSettings{
		Mode: networking.ServerTLSSettings_MUTUAL, ServerCertificate: "/c", PrivateKey: "/k", CaCertificates: "/r",
	}
	for _, proxy := range []string{"redirect", "none"} {
		r := BuildInbound(mesh(sidecar(entry)), ViewOf(proxies()[proxy]).Inbound)
		found := false
		for _, l := range r.Listeners {
			for _, c := range l.FilterChains {
				if c.GetFilterChainMatch().GetDestinationPort().GetValue() != 9080 && l.Name != "10.0.0.1_9080" {
					continue
				}
				found = true
				if c.TransportSocket == nil {
					t.Errorf("%s: a chain of %s takes plain text", proxy, l.Name)
				}
			}
		}
		if !found {
			t.Errorf("%s: nothing listens", proxy)
		}
	}
}

// Gateways of one port and several binds have separate routes: a host of one is not reachable through another.
func TestGatewaysOfSeveralBinds(t *testing.T) {
	gateway := func(name, bind, host string) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "Gateway", Namespace: "default", Name: name}, Spec: &networking.Gateway{
			Servers: []*networking.Server{{Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "x"}, Bind: bind, Hosts: []string{host}}},
		}}
	}
	rule := func(gateway, host string) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "VirtualService", Namespace: "default", Name: gateway}, Spec: &networking.VirtualService{
			Hosts: []string{host}, Gateways: []string{gateway}, Http: []*networking.HTTPRoute{{DirectResponse: &networking.HTTPDirectResponse{Status: 200}}},
		}}
	}
	m := model.New(slices.Values([]model.Group{{Objects: []*model.Object{
		gateway("public", "", "public.test"), gateway("wide", "0.0.0.0", "wide.test"), gateway("inner", "10.0.0.1", "inner.test"),
		rule("public", "public.test"), rule("wide", "wide.test"), rule("inner", "inner.test"),
	}}}))
	r := Build(m, ViewOf(proxies()["router"]))
	got := map[string]string{}
	for _, c := range r.Routes {
		var domains []string
		for _, h := range c.VirtualHosts {
			domains = append(domains, h.Domains...)
		}
		slices.Sort(domains)
		got[c.Name] = strings.Join(domains, " ")
	}
	if len(got) != 2 || got["http.80"] != "public.test wide.test" || got["http.80.10.0.0.1"] != "inner.test" {
		t.Errorf("routes are %v", got)
	}
	for _, fault := range faultsOf(r) {
		t.Error(fault)
	}
	validate(t, r)
}

// The rules of a gateway are those that are visible to the workload's namespace.
func TestGatewaysFollowRulesThatTheirWorkloadSees(t *testing.T) {
	for name, test := range map[string]struct {
		exportTo string
		want     int
	}{"to the workload's namespace": {"default", 1}, "to the Gateway's": {"shop", 0}, "its own": {".", 0}, "all": {"*", 1}} {
		t.Run(name, func(t *testing.T) {
			m := model.New(slices.Values([]model.Group{{Objects: []*model.Object{
				{Meta: model.Meta{Kind: "Gateway", Namespace: "shop", Name: "g"}, Spec: &networking.Gateway{Servers: []*networking.Server{
					{Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "x"}, Hosts: []string{"*"}},
				}}},
				{Meta: model.Meta{Kind: "VirtualService", Namespace: "shop", Name: "v"}, Spec: &networking.VirtualService{
					Hosts: []string{"a.test"}, Gateways: []string{"g"}, ExportTo: []string{test.exportTo},
					Http: []*networking.HTTPRoute{{DirectResponse: &networking.HTTPDirectResponse{Status: 200}}},
				}},
			}}}))
			hosts := 0
			for _, c := range Build(m, ViewOf(proxies()["router"])).Routes {
				hosts += len(slices.DeleteFunc(c.VirtualHosts, func(h *routev3.VirtualHost) bool { return h.Domains[0] != "a.test" }))
			}
			if hosts != test.want {
				t.Errorf("%d hosts are served, want %d", hosts, test.want)
			}
		})
	}
}

// A server name that is too long for a handshake is left out, and reported in a note.
func TestLongServerNames(t *testing.T) {
	host := strings.Repeat(strings.Repeat("a", 49)+".", 4) + strings.Repeat("b", 30)
	rule := versions(host)
	rule.TrafficPolicy = &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL}}
	rule.Subsets[1].Name = strings.Repeat("v", 30)
	m := mesh(service(host, httpPort(80), at("10.0.0.1", "v1")), rule)
	r := Build(m, ViewOf(proxies()["redirect"]))
	for _, fault := range faultsOf(r) {
		t.Error(fault)
	}
	var told []string
	for _, n := range m.Notes() {
		if n.Code == model.LongServerName {
			told = append(told, n.Path)
		}
	}
	if want := []string{"spec.subsets[1].name"}; !slices.Equal(told, want) {
		t.Errorf("noted %s, want %s", told, want)
	}
}

// A service cannot use the ports of the proxy's bootstrap and its agent either, as reported in the proxy's metadata.
func TestPortsOfTheBootstrapStand(t *testing.T) {
	own := map[string]any{
		"ENVOY_PROMETHEUS_PORT": float64(15090), "ENVOY_STATUS_PORT": "15021",
		"DNS_CAPTURE": "true", "DNS_AUTO_ALLOCATE": "false", // else TCP services have own addresses
		"PROXY_CONFIG": map[string]any{"statusPort": float64(15020), "proxyAdminPort": float64(15000)},
	}
	numbers := []uint32{15090, 15021, 15020, 15000, 15053, 15007}
	served := []*networking.Server{}
	for _, n := range numbers {
		served = append(served, &networking.Server{Port: &networking.Port{Number: n, Protocol: "TCP", Name: "x"}, Hosts: []string{"*"}})
	}
	declared := &networking.Sidecar{Egress: []*networking.IstioEgressListener{
		{Port: &networking.SidecarPort{Number: 15090, Protocol: "HTTP", Name: "x"}, Bind: "127.0.0.1", CaptureMode: networking.CaptureMode_NONE, Hosts: []string{"*/*"}},
		{Hosts: []string{"*/*"}},
	}, Ingress: []*networking.IstioIngressListener{
		{Port: &networking.SidecarPort{Number: 15020, Protocol: "TCP", Name: "y"}, CaptureMode: networking.CaptureMode_NONE, DefaultEndpoint: "127.0.0.1:1"},
	}}
	for name, test := range map[string]struct {
		proxy    string
		metadata map[string]any
		object   any
		gone     []uint32 // ports of numbers without a listener
		noted    int
	}{
		"intercepted":           {"redirect", own, nil, []uint32{15090, 15021}, 2},
		"dual-stack":            {"dual", own, nil, []uint32{15090, 15021}, 2},
		"none":                  {"none", own, nil, []uint32{15090, 15021, 15020, 15000, 15053}, 5},
		"gateway":               {"router", own, &networking.Gateway{Servers: served}, []uint32{15090, 15021, 15020, 15000, 15053}, 5},
		"declared":              {"redirect", own, declared, []uint32{15090, 15021}, 4},
		"another proxy":         {"redirect", nil, nil, nil, 0},
		"another proxy, none":   {"none", map[string]any{"PROXY_CONFIG": "?"}, nil, nil, 0},
		"without interception ": {"none", map[string]any{"ENVOY_PROMETHEUS_PORT": "x"}, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := proxies()[strings.Replace(test.proxy, "dual", "redirect", 1)]
			if test.proxy == "dual" {
				proxy.Metadata.InstanceIPs = []string{"10.0.0.1", "fd00::1"}
			}
			if test.proxy == "none" {
				proxy.Metadata.HTTPProxyPort = 0
			}
			proxy.Metadata.Extra = test.metadata
			entry, s := entryPorts("a.test", numbers...)
			parts := []any{entry, s}
			if test.object != nil {
				parts = append(parts, test.object)
			}
			m := mesh(parts...)
			r := Build(m, ViewOf(proxy))
			have := map[uint32]bool{}
			for _, l := range r.Listeners {
				have[l.GetAddress().GetSocketAddress().GetPortValue()] = true
			}
			for _, n := range numbers {
				if have[n] == slices.Contains(test.gone, n) {
					t.Errorf("port %d: a listener: %v", n, have[n])
				}
			}
			validate(t, r)
			noted := 0
			for _, n := range m.Notes(ViewOf(proxy).Proxy()) {
				if n.Code == model.ReservedPort {
					noted++
				}
			}
			if noted != test.noted {
				t.Errorf("%d ports are noted, want %d: %v", noted, test.noted, m.Notes(ViewOf(proxy).Proxy()))
			}
		})
	}
}
