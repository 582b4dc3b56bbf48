package xds

import (
	"fmt"
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// takenMesh has two Services of bank, an HTTP one at 10.96.0.10:80 with the Pod 10.244.0.5 and a TCP one at 10.96.0.11:80, and what a
// tenant adds.
func takenMesh(objects []*model.Object, more ...*model.Service) *model.Mesh {
	pay, raw := service(fqdn("pay"), httpPort(80), model.Endpoint{Address: "10.244.0.5"}), service(fqdn("raw"), model.Port{Name: "tcp", Number: 80, Protocol: model.TCP})
	for i, s := range []*model.Service{pay, raw} {
		s.Registry, s.Namespace, s.Name, s.Addresses = "Kubernetes", "bank", s.Host, []string{fmt.Sprintf("10.96.0.%d", 10+i)}
	}
	pod := func(namespace, address string, onNode bool) *model.Workload {
		return &model.Workload{Registry: "Kubernetes", Namespace: namespace, Name: address, Addresses: []string{address}, OnNode: onNode}
	}
	return model.New(slices.Values([]model.Group{{
		Services: append([]*model.Service{pay, raw}, more...), Objects: objects,
		Workloads: []*model.Workload{pod("bank", "10.244.0.5", false), pod("bank", "10.1.0.1", true), pod("evil", "10.244.0.6", false)},
	}}))
}

// wayOf returns where a sidecar's listeners lead a connection: "http", or the cluster of its bytes.
func wayOf(t *testing.T, r *Resources, c connection) string {
	t.Helper()
	var found *listenerv3.Listener
	for _, l := range r.Listeners {
		if l.Name == fmt.Sprintf("%s_%d", c.to, c.port) || found == nil && l.Name == fmt.Sprintf("0.0.0.0_%d", c.port) {
			found = l
		}
	}
	if found == nil {
		return "no listener"
	}
	chain := chainFor(found, c)
	if chain == nil {
		chain = found.DefaultFilterChain
	}
	filter := chain.Filters[len(chain.Filters)-1]
	if filter.Name == hcmFilter {
		return "http"
	}
	proxy := &tcpproxyv3.TcpProxy{}
	if err := filter.GetTypedConfig().UnmarshalTo(proxy); err != nil {
		t.Fatal(err)
	}
	return proxy.GetCluster()
}

// A tenant's ServiceEntry takes no connection to the address of another namespace's Service or Pod, in whatever form it names that.
func TestTakenAddresses(t *testing.T) {
	const taken, theirs = "outbound|80||x.evil.test", "outbound|80||" // raw
	entry := func(namespace string, protocol model.Protocol, addresses ...string) *model.Service {
		s := service("x.evil.test", model.Port{Name: "p", Number: 80, Protocol: protocol}, model.Endpoint{Address: "10.9.9.9"})
		s.Namespace, s.Addresses = namespace, addresses
		return s
	}
	for name, tt := range map[string]struct {
		entry             *model.Service
		pay, pod, unknown string // of HTTP to the Service, to the Pod, to 10.96.7.7
	}{
		"nothing":               {entry("evil", model.HTTP), "http", "http", "http"},
		"the address":           {entry("evil", model.TCP, "10.96.0.10"), "http", "http", "http"},
		"as a range":            {entry("evil", model.TCP, "10.96.0.10/32"), "http", "http", "http"},
		"a range of two":        {entry("evil", model.TCP, "10.96.0.10/31"), "http", "http", "http"},
		"a wide range":          {entry("evil", model.TCP, "10.96.0.0/16"), "http", "http", taken},
		"every address":         {entry("evil", model.TCP, "0.0.0.0/0"), "http", "http", taken},
		"mapped":                {entry("evil", model.TCP, "::ffff:10.96.0.10"), "http", "http", "http"},
		"with one of its own":   {entry("evil", model.TCP, "10.96.0.10", "10.96.7.7"), "http", "http", taken},
		"the Pod":               {entry("evil", model.TCP, "10.244.0.5"), "http", "http", "http"},
		"the Pod's range":       {entry("evil", model.TCP, "10.244.0.0/24"), "http", "http", "http"},
		"detected":              {entry("evil", model.Unknown, "10.96.0.10"), "http", "http", "http"},
		"a detected range":      {entry("evil", model.Unknown, "10.96.0.0/16"), "http", "http", "http"},
		"of TLS":                {entry("evil", model.TLS, "10.96.0.10"), "http", "http", "http"},
		"the own namespace":     {entry("bank", model.TCP, "10.96.0.10"), taken, "http", "http"},
		"of the mesh's owner":   {entry("istio-system", model.TCP, "10.96.0.0/16"), taken, "http", taken},
		"the owner's Pod range": {entry("istio-system", model.TCP, "10.244.0.0/16"), "http", taken, "http"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Build(takenMesh(nil, tt.entry), ViewOf(proxies()["redirect"]))
			for to, want := range map[string]string{"10.96.0.10": tt.pay, "10.244.0.5": tt.pod, "10.96.7.7": tt.unknown} {
				c := connection{port: 80, to: to, from: "10.244.0.9", transport: "raw_buffer", application: "http/1.1"}
				if got := wayOf(t, r, c); got != want {
					t.Errorf("HTTP to %s goes to %s, want %s", to, got, want)
				}
				if c.application = ""; to == "10.96.0.10" && want == "http" {
					if got := wayOf(t, r, c); got == taken {
						t.Errorf("bytes to %s go to %s", to, got)
					}
				}
			}
			if got := wayOf(t, r, connection{port: 80, to: "10.96.0.11", from: "10.244.0.9", transport: "raw_buffer"}); got != theirs+fqdn("raw") {
				t.Errorf("bytes to the Service of TCP go to %s", got)
			}
			for _, fault := range faultsOf(r) {
				t.Error(fault)
			}
			validate(t, r)
		})
	}
}

// Another port of the address, a node, and an address that only the tenant has are nobody else's.
func TestAddressesThatNobodyElseHas(t *testing.T) {
	for to, port := range map[string]uint32{"10.96.0.10": 81, "10.1.0.1": 80, "10.244.0.6": 80, "198.51.100.1": 80} {
		s := service("x.evil.test", model.Port{Name: "p", Number: port, Protocol: model.TCP}, model.Endpoint{Address: "10.9.9.9"})
		s.Namespace, s.Addresses = "evil", []string{to}
		r := Build(takenMesh(nil, s), ViewOf(proxies()["redirect"]))
		if got, want := wayOf(t, r, connection{port: port, to: to, from: "10.244.0.9", transport: "raw_buffer"}), fmt.Sprintf("outbound|%d||x.evil.test", port); got != want {
			t.Errorf("%s:%d goes to %s, want %s", to, port, got, want)
		}
	}
}

// Nor do destinationSubnets of a tenant's routes take any.
func TestTakenDestinationSubnets(t *testing.T) {
	s := service("x.evil.test", model.Port{Name: "p", Number: 80, Protocol: model.TCP}, model.Endpoint{Address: "10.9.9.9"})
	s.Namespace = "evil"
	for namespace, want := range map[string]string{"evil": "http", "istio-system": "outbound|80||x.evil.test"} {
		rule := &model.Object{Meta: model.Meta{Kind: "VirtualService", Namespace: namespace, Name: "x"}, Spec: &networking.VirtualService{
			Hosts: []string{"x.evil.test"}, Tcp: []*networking.TCPRoute{{
				Match: []*networking.L4MatchAttributes{{DestinationSubnets: []string{"10.96.0.0/16"}}},
				Route: []*networking.RouteDestination{{Destination: &networking.Destination{Host: "x.evil.test", Port: &networking.PortSelector{Number: 80}}}},
			}},
		}}
		r := Build(takenMesh([]*model.Object{rule}, s), ViewOf(proxies()["redirect"]))
		c := connection{port: 80, to: "10.96.0.10", from: "10.244.0.9", transport: "raw_buffer", application: "http/1.1"}
		if got := wayOf(t, r, c); got != want {
			t.Errorf("a route of %s: HTTP to the Service goes to %s, want %s", namespace, got, want)
		}
		validate(t, r)
	}
}

// A wide range costs one chain, however many Services lie in it.
func TestAWideRangeCostsOneChain(t *testing.T) {
	s := service("x.evil.test", model.Port{Name: "p", Number: 80, Protocol: model.TCP}, model.Endpoint{Address: "10.9.9.9"})
	s.Namespace, s.Addresses = "evil", []string{"10.96.0.0/12"}
	all := []*model.Service{s}
	for i := range 5000 {
		s := service(fqdn(fmt.Sprintf("s%d", i)), httpPort(80))
		s.Registry, s.Namespace, s.Name, s.Addresses = "Kubernetes", "shop", s.Host, []string{fmt.Sprintf("10.97.%d.%d", i/250, 1+i%250)}
		all = append(all, s)
	}
	r := Build(takenMesh(nil, all...), ViewOf(proxies()["redirect"]))
	i := slices.IndexFunc(r.Listeners, func(l *listenerv3.Listener) bool { return l.Name == "0.0.0.0_80" })
	if n := len(r.Listeners[i].FilterChains); n > 6 {
		t.Errorf("the listener has %d chains", n)
	}
	if got := wayOf(t, r, connection{port: 80, to: "10.97.19.250", from: "10.244.0.9", transport: "raw_buffer", application: "http/1.1"}); got != "http" {
		t.Errorf("HTTP to a Service goes to %s", got)
	}
}
