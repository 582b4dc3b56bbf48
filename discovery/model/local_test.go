package model

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Every spelling of an address that leads a proxy to its own sockets is known.
func TestLocalAddress(t *testing.T) {
	for address, want := range map[string]Local{
		"10.1.2.3": NotLocal, "192.168.0.1": NotLocal, "fd00::1": NotLocal, "2001:db8::1": NotLocal, "::ffff:10.1.2.3": NotLocal,
		"web.default.svc.cluster.local": NotLocal, "api.example.com.": NotLocal, "localhost.example.com": NotLocal, "a1": NotLocal, "": NotLocal,
		"127.0.0.2": Loopback, "127.0.0.11": Loopback, "127.255.255.254": Loopback, "::ffff:127.0.0.9": Loopback, "::ffff:7f00:9": Loopback,
		"127.0.0.1": LocalHost, "::1": LocalHost, "0:0:0:0:0:0:0:1": LocalHost, "::ffff:127.0.0.1": LocalHost, "::FFFF:7F00:1": LocalHost,
		"::1%lo": LocalHost, "0.0.0.0": LocalHost, "::": LocalHost, "::ffff:0.0.0.0": LocalHost,
		"localhost": LocalHost, "LOCALHOST.": LocalHost, "a.localhost": LocalHost, "localhost.localdomain": LocalHost, "ip6-localhost": LocalHost,
		"127.1": LocalHost, "2130706433": LocalHost, "0x7f000001": LocalHost, "0177.0.0.01": LocalHost, "127.0.0.0x1": LocalHost, "0": LocalHost,
		"169.254.169.254": LinkLocal, "fe80::1": LinkLocal, "fe80::1%eth0": LinkLocal, "::ffff:169.254.1.1": LinkLocal,
		"unix:///run/app.sock": UnixSocket, "unix://@app": UnixSocket, "unix:///tmp/private/app.sock": UnixSocket,
		"unix:///etc/istio/proxy/private-0/sds.sock": AgentPath, "unix:///etc/istio/proxy/SDS": AgentPath, "unix:///srv/mesh/private-63/x": AgentPath,
		"unix:///srv/agent.sock": AgentPath, "unix:///srv/admin-rev12.sock": AgentPath, "unix:///dev/fd/64/sds.sock": AgentPath, "unix:///dev/fd/64/x": AgentPath,
		"unix:///proc/self/fd/64/x": AgentPath, "unix:///run/../etc/istio/proxy/x": AgentPath, "unix:////etc/istio/proxy/x": AgentPath,
		"unix:///run/./x": AgentPath, "unix://run/x": AgentPath, "unix://": AgentPath, "unix:///var/run/secrets/workload-spiffe-uds/socket": AgentPath,
		"unix://@envoy_domain_socket_parent_0": AgentPath,
	} {
		if got := LocalAddress(address); got != want {
			t.Errorf("%q is %s, want %s", address, got, want)
		}
	}
}

// An endpoint at a local address goes to the sidecars of its own namespace at most. A flag opens addresses of loopback
// to all, but 127.0.0.1 to no gateway, and ports of agents to nobody.
func TestWithheld(t *testing.T) {
	const gateway, same, foreign = 1, 2, 4 // to which it goes
	for _, test := range []struct {
		local          Local
		port           uint32
		root           bool
		plain, flagged int
	}{
		{NotLocal, 80, false, gateway | same | foreign, gateway | same | foreign},
		{NotLocal, 15000, false, same | foreign, same | foreign},
		{NotLocal, 15020, false, same | foreign, same | foreign},
		{NotLocal, 2020, false, gateway | same | foreign, gateway | same | foreign}, // the status port of the proxy itself alone
		{Loopback, 80, false, same, gateway | same | foreign},
		{Loopback, 15020, false, 0, 0},
		{Loopback, 2020, false, 0, 0},
		{LocalHost, 80, false, same, same | foreign},
		{LocalHost, 80, true, same, same | foreign},
		{LocalHost, 15000, false, 0, 0},
		{LocalHost, 15001, false, 0, 0},
		{LocalHost, 7006, false, 0, 0},
		{LocalHost, 2020, false, 0, 0},
		{LinkLocal, 80, false, same, same},
		{LinkLocal, 80, true, same | foreign, same | foreign},
		{UnixSocket, 80, false, same, same},
		{UnixSocket, 80, true, same, same},
		{AgentPath, 80, false, 0, 0},
		{AgentPath, 80, true, 0, 0},
		{OwnAddress, 80, false, same | foreign, same | foreign},
		{OwnAddress, 15020, false, 0, 0},
	} {
		for flag, want := range map[bool]int{false: test.plain, true: test.flagged} {
			s := Settings{LoopbackEndpoints: flag, Config: &meshconfig.MeshConfig{ProxyInboundListenPort: 7006}}
			own := OwnPorts{Status: 2020}
			got := 0
			for bit, to := range map[int]Recipient{gateway: {Gateway: true, Own: own}, same: {Same: true, Own: own}, foreign: {Own: own}} {
				if !s.Withheld(test.local, test.port, test.root, to) {
					got |= bit
				}
			}
			if got != want {
				t.Errorf("%s, port %d, of the root namespace %v, flag %v: goes to %03b, want %03b (foreign, same, gateway)", test.local, test.port, test.root, flag, got, want)
			}
		}
	}
}

// A short path and a full one know the same services with local endpoints.
func TestLocalServicesAfterChange(t *testing.T) {
	at := func(address string) *Service {
		return &Service{Right: RightFull, Host: "a.test", Namespace: "a", Resolution: ResolutionStatic, Endpoints: []Endpoint{{Address: address}}}
	}
	m := New(slices.Values([]Group{{Services: []*Service{at("10.0.0.1")}}}))
	for _, step := range []struct {
		address string
		want    bool
	}{{"::ffff:127.0.0.1", true}, {"10.0.0.2", false}, {"unix:///run/a", true}, {"localhost", true}} {
		next, ok := m.With([]*Service{at(step.address)}, nil)
		if !ok {
			t.Fatal("no short path")
		}
		if m = next; m.HasLocal(m.Service("a.test")) != step.want {
			t.Errorf("%s: local is %v, want %v", step.address, !step.want, step.want)
		}
	}
}

// Each endpoint that is withheld is named, with the proxies that do not get it.
func TestLocalNotes(t *testing.T) {
	entry := func(resolution networking.ServiceEntry_Resolution, port uint32, hosts []string, addresses ...string) *Object {
		s := &networking.ServiceEntry{Hosts: hosts, Resolution: resolution, Ports: []*networking.ServicePort{{Name: "http", Number: port, Protocol: "HTTP"}}}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, &networking.WorkloadEntry{Address: a})
		}
		return &Object{Meta: Meta{Kind: "ServiceEntry", Namespace: "evil", Name: "a"}, Spec: s}
	}
	static, dns, a := networking.ServiceEntry_STATIC, networking.ServiceEntry_DNS, []string{"a.test"}
	registered := &Service{
		Right: RightFull, Registry: "Consul", Host: "b.test", Namespace: "default", Name: "b", Ports: []Port{{Name: "http", Number: 80}},
		Endpoints: []Endpoint{{Address: "10.0.0.1"}, {Address: "127.0.0.1"}, {Address: "169.254.1.1"}},
	}
	gateway := Proxy{Namespace: "istio-ingress", Gateway: true, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")}}
	for name, test := range map[string]struct {
		group     Group
		flag      bool
		connected []Proxy
		want      string // of each note: path and a part of the message
	}{
		"network":   {Group{Objects: []*Object{entry(static, 80, a, "10.0.0.1")}}, false, nil, ""},
		"loopback":  {Group{Objects: []*Object{entry(static, 80, a, "10.0.0.1", "127.0.0.7")}}, false, nil, `spec.endpoints[1].address: is "127.0.0.7", a loopback address: no gateway and no sidecar of another namespace gets`},
		"flag":      {Group{Objects: []*Object{entry(static, 80, a, "127.0.0.7")}}, true, nil, ""},
		"host":      {Group{Objects: []*Object{entry(static, 80, a, "127.0.0.1")}}, true, nil, `spec.endpoints[0].address: is "127.0.0.1", an address of the proxy's own host: no gateway gets`},
		"admin":     {Group{Objects: []*Object{entry(static, 15000, a, "127.0.0.7")}}, true, nil, `spec.endpoints[0].address: is "127.0.0.7", a loopback address, at port 15000, which proxies and their agents have for themselves: no proxy gets`},
		"status":    {Group{Objects: []*Object{entry(static, 15020, a, "10.0.0.1")}}, true, nil, `spec.endpoints[0].address: is at port 15020, which proxies and their agents have for themselves: no gateway gets`},
		"socket":    {Group{Objects: []*Object{entry(static, 80, a, "unix:///etc/istio/proxy/private-0/sds.sock")}}, true, nil, "a socket of the proxy's agent: no proxy gets"},
		"host name": {Group{Objects: []*Object{entry(dns, 80, []string{"x.test", "a.localhost"})}}, false, nil, `spec.hosts[1]: is "a.localhost", an address of the proxy's own host`},
		"workload":  {Group{Objects: []*Object{{Meta: Meta{Kind: "WorkloadEntry", Namespace: "evil", Name: "w"}, Spec: &networking.WorkloadEntry{Address: "::1"}}}}, false, nil, `spec.address: is "::1"`},
		"registry":  {Group{Services: []*Service{registered}}, false, nil, `endpoints: of b.test: one of 2 is "127.0.0.1"`},
		"own address of a gateway": {
			Group{Objects: []*Object{entry(static, 80, a, "10.0.0.9")}},
			false,
			[]Proxy{gateway},
			`spec.endpoints: of a.test: 10.0.0.9 is the own address of a gateway of namespace istio-ingress`,
		},
		"very many": {
			Group{Objects: []*Object{entry(static, 80, a, slices.Repeat([]string{"::1"}, 5000)...)}},
			false, nil,
			strings.Repeat("spec.endpoints[", 10) + "and 4990 further endpoints",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range NewOf(Settings{LoopbackEndpoints: test.flag}, slices.Values([]Group{test.group})).Notes(test.connected...) {
				if n.Code == LocalEndpoint {
					got = append(got, n.Path+": "+n.Message)
				}
			}
			all := strings.Join(got, "\n")
			if name == "very many" {
				if len(got) != maxLocal+1 || !strings.Contains(all, "and 4990 further endpoints") {
					t.Errorf("%d notes:\n%s", len(got), all)
				}
				return
			}
			if test.want == "" != (all == "") || !strings.Contains(all, test.want) || len(got) > 1 {
				t.Errorf("notes are %q, want one with %q", got, test.want)
			}
		})
	}
}
