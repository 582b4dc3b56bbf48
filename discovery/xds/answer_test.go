package xds

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// domainsOf returns the virtual hosts of a route configuration, by the first domain of each.
func domainsOf(r *Resources, name string) map[string]*routev3.VirtualHost {
	out := map[string]*routev3.VirtualHost{}
	for _, c := range r.Routes {
		if c.Name != name {
			continue
		}
		for _, h := range c.VirtualHosts {
			for _, d := range h.Domains {
				out[d] = h
			}
		}
	}
	return out
}

func TestRulesWithoutARouteLeaveTheDefault(t *testing.T) {
	rule := &networking.VirtualService{Hosts: []string{"a.test"}, Http: []*networking.HTTPRoute{{
		Match: []*networking.HTTPMatchRequest{{SourceNamespace: "elsewhere"}}, Route: []*networking.HTTPRouteDestination{to("b.test", "", 0)},
	}}}
	r := Build(mesh(service("a.test", httpPort(80)), rule), ViewOf(proxies()["redirect"]))
	host := domainsOf(r, "80")["a.test"]
	if len(host.GetRoutes()) != 1 || host.Routes[0].GetRoute().GetCluster() != "outbound|80||a.test" {
		t.Errorf("a.test is %v, want its own cluster", host)
	}
}

// A host that only a rule contains has a virtual host at port 80, and an IPv6 address is in brackets.
func TestHostsThatOnlyRulesName(t *testing.T) {
	rule := &networking.VirtualService{Hosts: []string{"only.test", "fd00::1"}, Http: []*networking.HTTPRoute{
		{Route: []*networking.HTTPRouteDestination{to("a.test", "", 0)}},
	}}
	r := Build(mesh(service("a.test", httpPort(80)), service("b.test", httpPort(81)), rule), ViewOf(proxies()["redirect"]))
	on80, on81 := domainsOf(r, "80"), domainsOf(r, "81")
	if on80["only.test"] == nil || on80["[fd00::1]"] == nil || on80["fd00::1"] != nil || on81["only.test"] != nil {
		t.Errorf("on 80 are %v, on 81 %v", on80, on81)
	}
}

// A wildcard of a rule stands for the services that it matches at the port, and only if there is none for every host
// below it.
func TestWildcardsOfRulesAreServices(t *testing.T) {
	rule := &networking.VirtualService{
		Hosts: []string{"*.a.test", "*.b.test", "*.c.test", "*.d.test"},
		Http:  []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{to("one.a.test", "", 0)}}},
	}
	tcp := service("one.c.test", model.Port{Name: "tcp", Number: 80, Protocol: model.TCP})
	m := mesh(service("one.a.test", httpPort(80)), service("*.sub.d.test", httpPort(80)), service("one.b.test", httpPort(81)), tcp, rule)
	for name, test := range map[string]struct {
		view  View
		table string
		want  map[string]bool
	}{
		"at a port":        {ViewOf(proxies()["redirect"]), "80", map[string]bool{"*.a.test": false, "*.b.test": true, "*.c.test": true, "*.d.test": false}},
		"by an HTTP proxy": {viewOf(t, "127.0.0.9"), httpProxyRoute, map[string]bool{"*.a.test": false, "*.b.test": false, "*.c.test": true, "*.d.test": false}},
	} {
		hosts := domainsOf(Build(m, test.view), test.table)
		for domain, want := range test.want {
			if got := hosts[domain] != nil; got != want {
				t.Errorf("%s: %s has a virtual host: %t, want %t", name, domain, got, want)
			}
		}
		if test.table == "80" && hosts["one.a.test"] == nil {
			t.Errorf("%s: the service has no virtual host", name)
		}
	}
}

// Pods of a headless service have names of their own, which follow the service's rules.
func TestNamesOfPods(t *testing.T) {
	s := service("sts.default.svc.cluster.local", httpPort(80), at("10.0.0.1", "v1"))
	s.Headless, s.Resolution = true, model.ResolutionNone
	m := mesh(s, service("plain.default.svc.cluster.local", httpPort(80)), &networking.VirtualService{
		Hosts: []string{"sts"}, Http: []*networking.HTTPRoute{{Name: "own", Route: []*networking.HTTPRouteDestination{to("sts", "", 0)}}},
	})
	hosts := domainsOf(Build(m, ViewOf(proxies()["redirect"])), "80")
	for _, name := range []string{"sts.default.svc.cluster.local", "sts.default.svc", "sts.default", "sts"} {
		if h := hosts["*."+name]; h == nil || h != hosts[name] || h.Routes[0].Name != "own" {
			t.Errorf("*.%s has the virtual host %v, want that of the service", name, h)
		}
	}
	if hosts["*.plain.default.svc.cluster.local"] != nil {
		t.Error("a service with an address has names of Pods")
	}
}

func TestDistributeManyEndpoints(t *testing.T) {
	s := service("a.test", httpPort(80))
	for i := range 3000 {
		zone := "1"
		if i%2 == 0 {
			zone = "2"
		}
		s.Endpoints = append(s.Endpoints, model.Endpoint{
			Address: fmt.Sprintf("10.1.%d.%d", i/200, i%200), Weight: 1 << 20, Locality: model.Locality{Region: "west", Zone: zone},
		})
	}
	settings := &meshconfig.MeshConfig{LocalityLbSetting: &networking.LocalityLoadBalancerSetting{
		Distribute: []*networking.LocalityLoadBalancerSetting_Distribute{
			{From: "*", To: map[string]uint32{"west/1/*": 80, "west/2/*": 20}},
		},
	}}
	r := Build(mesh(s, settings), ViewOf(proxies()["redirect"]))
	var got []string
	for _, g := range r.Endpoints[0].Endpoints {
		got = append(got, fmt.Sprintf("%s %d", g.Locality.Zone, g.LoadBalancingWeight.GetValue()))
	}
	if want := []string{"1 8000", "2 2000"}; !slices.Equal(got, want) {
		t.Errorf("localities weigh %s, want %s", got, want)
	}
}

// A network with two gateways has the total weight of its endpoints; an endpoint may have no address that is known
// outside its network.
func TestNetworksOfSeveralGateways(t *testing.T) {
	gateway := func(address string) *meshconfig.Network_IstioNetworkGateway {
		return &meshconfig.Network_IstioNetworkGateway{Gw: &meshconfig.Network_IstioNetworkGateway_Address{Address: address}, Port: 15443}
	}
	s := service("a.test", httpPort(80), model.Endpoint{Address: "10.0.0.9"}, model.Endpoint{Address: "10.9.0.1", Network: "far", Weight: 3},
		model.Endpoint{Network: "far"}, model.Endpoint{Network: "unknown"})
	networks := &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
		"far": {Gateways: []*meshconfig.Network_IstioNetworkGateway{gateway("192.0.2.1"), gateway("192.0.2.2")}},
	}}
	for network, want := range map[string]string{
		"near": "10.0.0.9 2, 192.0.2.1 4, 192.0.2.2 4", "far": "10.0.0.9 2, 10.9.0.1 6",
	} {
		proxy := proxies()["redirect"]
		proxy.Metadata.Extra = map[string]any{"NETWORK": network}
		var got []string
		for _, g := range Build(mesh(s, networks), ViewOf(proxy)).Endpoints[0].Endpoints {
			for _, e := range g.LbEndpoints {
				got = append(got, fmt.Sprintf("%s %d", socketOf(e).GetAddress(), e.GetLoadBalancingWeight().GetValue()))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("from %s: %s, want %s", network, got, want)
		}
	}
	if heavy := (target{
		service: service("a.test", httpPort(80), model.Endpoint{Address: "10.9.0.1", Network: "far", Weight: math.MaxUint32}),
		port:    httpPort(80), mesh: model.Settings{Config: &meshconfig.MeshConfig{}, Networks: networks}, view: Outbound{Network: "near"},
	}).reachable(); len(heavy) != 2 || heavy[0].weight != math.MaxUint32/2 {
		t.Errorf("the heaviest endpoint is reached as %v", heavy)
	}
}

// HTTP is detected for addresses in a range, and for services that share an address.
func TestPortsWithoutProtocol(t *testing.T) {
	unknown := model.Port{Name: "x", Number: 9000}
	ranged, one, two := service("ranged.test", unknown), service("one.test", unknown), service("two.test", unknown)
	ranged.Addresses, one.Addresses, two.Addresses = []string{"10.50.0.0/16"}, []string{"10.60.0.1"}, []string{"10.60.0.1"}
	m := mesh(ranged, one, two, &meshconfig.MeshConfig{OutboundTrafficPolicy: &meshconfig.MeshConfig_OutboundTrafficPolicy{
		Mode: meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY,
	}})
	r := Build(m, ViewOf(proxies()["redirect"]))
	for _, fault := range faultsOf(r) {
		t.Error(fault)
	}
	kinds := map[string]bool{} // of chains for the range
	for _, l := range r.Listeners {
		for _, c := range l.FilterChains {
			if match := c.GetFilterChainMatch(); len(match.GetPrefixRanges()) == 1 && match.PrefixRanges[0].AddressPrefix == "10.50.0.0" {
				kinds[fmt.Sprint(match.TransportProtocol, len(match.ApplicationProtocols) > 0)] = true
			}
		}
	}
	if !kinds["raw_buffertrue"] || !kinds["raw_bufferfalse"] || !kinds["false"] {
		t.Errorf("the range has chains %v, want HTTP, bytes and TLS", kinds)
	}
	hosts := domainsOf(r, "9000")
	if hosts["one.test"] == nil || hosts["two.test"] == nil || hosts["ranged.test"] == nil {
		t.Errorf("port 9000 knows %v", hosts)
	}
	if !slices.ContainsFunc(r.Listeners, func(l *listenerv3.Listener) bool {
		return l.Name == "10.60.0.1_9000" && strings.Contains(string(document(t, &Resources{Listeners: []*listenerv3.Listener{l}})), `"9000"`)
	}) {
		t.Error("the listener of the shared address does not lead to both services")
	}
	validate(t, r)
}

// A proxy whose metadata marks it as unprivileged receives no listener that it could not open.
func TestUnprivilegedProxies(t *testing.T) {
	for value, want := range map[string]int{"true": 0, "": 2} {
		proxy := proxies()["none"]
		proxy.Metadata.Extra = map[string]any{"UNPRIVILEGED_POD": value}
		proxy.Metadata.InterceptionMode = node.None
		low, told := 0, 0
		entry, s := entryPorts("a.test", 80)
		s.Endpoints = []model.Endpoint{at("10.0.0.1", "")}
		m := mesh(entry, s)
		for _, n := range m.Notes(ViewOf(proxy).Proxy()) {
			if n.Code == model.PrivilegedPort {
				told++
			}
		}
		for _, l := range Build(m, ViewOf(proxy)).Listeners {
			if l.GetAddress().GetSocketAddress().GetPortValue() == 80 {
				low++
			}
		}
		if told == 1 != (want == 0) {
			t.Errorf("with UNPRIVILEGED_POD %q %d ports are noted", value, told)
		}
		if low != want {
			t.Errorf("with UNPRIVILEGED_POD %q there are %d listeners of port 80, want %d", value, low, want)
		}
	}
}
