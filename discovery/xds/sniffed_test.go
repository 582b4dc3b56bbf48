package xds

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// connection holds the properties by which Envoy selects a filter chain.
type connection struct {
	port        uint32
	to, from    string // IP addresses
	sni         string
	transport   string
	application string // as the inspectors detect it
}

// chainFor returns the chain that Envoy selects: it compares one property after the other, keeps the chains with the
// most specific value, and does not go back.
func chainFor(l *listenerv3.Listener, c connection) *listenerv3.FilterChain {
	equal := func(want, got string) int {
		switch want {
		case "":
			return 0
		case got:
			return 1
		default:
			return -1
		}
	}
	left := l.FilterChains
	for _, specific := range []func(m *listenerv3.FilterChainMatch) int{
		func(m *listenerv3.FilterChainMatch) int {
			switch m.GetDestinationPort().GetValue() {
			case 0:
				return 0
			case c.port:
				return 1
			default:
				return -1
			}
		},
		func(m *listenerv3.FilterChainMatch) int {
			best := min(0, -len(m.GetPrefixRanges()))
			for _, r := range m.GetPrefixRanges() {
				if p := netip.PrefixFrom(netip.MustParseAddr(r.AddressPrefix), int(r.PrefixLen.GetValue())); p.Contains(netip.MustParseAddr(c.to)) {
					best = max(best, 1+p.Bits())
				}
			}
			return best
		},
		func(m *listenerv3.FilterChainMatch) int {
			best := min(0, -len(m.GetServerNames()))
			for _, name := range m.GetServerNames() {
				if suffix, wildcard := strings.CutPrefix(name, "*"); name == c.sni {
					best = 1000
				} else if wildcard && strings.HasSuffix(c.sni, suffix) {
					best = max(best, len(suffix))
				}
			}
			return best
		},
		func(m *listenerv3.FilterChainMatch) int { return equal(m.GetTransportProtocol(), c.transport) },
		func(m *listenerv3.FilterChainMatch) int {
			switch {
			case len(m.GetApplicationProtocols()) == 0:
				return 0
			case slices.Contains(m.ApplicationProtocols, c.application):
				return 1
			default:
				return -1
			}
		},
		func(m *listenerv3.FilterChainMatch) int {
			best := min(0, -len(m.GetSourcePrefixRanges()))
			for _, r := range m.GetSourcePrefixRanges() {
				if p := netip.PrefixFrom(netip.MustParseAddr(r.AddressPrefix), int(r.PrefixLen.GetValue())); p.Contains(netip.MustParseAddr(c.from)) {
					best = max(best, 1+p.Bits())
				}
			}
			return best
		},
	} {
		best := -1
		for _, chain := range left {
			best = max(best, specific(chain.FilterChainMatch))
		}
		if best < 0 {
			return l.DefaultFilterChain
		}
		left = slices.DeleteFunc(slices.Clone(left), func(chain *listenerv3.FilterChain) bool {
			return specific(chain.FilterChainMatch) != best
		})
	}
	return left[0]
}

// At a port without a protocol, HTTP of both versions is handled as HTTP, and all else reaches the same destination as
// bytes: inbound and outbound, whether the proxy binds the port or connections are redirected to it.
func TestEveryConnectionToASniffedPort(t *testing.T) {
	anyPort := model.Port{Name: "any", Number: 7000}
	other := service("b.com", model.Port{Name: "http", Number: 7000, Protocol: model.HTTP}, at("10.0.0.3", "v1"))
	detected := func(addresses ...string) *model.Service {
		s := service("a.com", anyPort, at("10.0.0.1", "v1"))
		s.Addresses = addresses
		return s
	}
	entry := func(mode networking.CaptureMode) *networking.Sidecar {
		e := ingress(7000, "", "127.0.0.1:9000")
		e.CaptureMode = mode
		return sidecar(e)
	}
	fromNear := &networking.VirtualService{Hosts: []string{"a.com"}, Tcp: []*networking.TCPRoute{{
		Match: []*networking.L4MatchAttributes{{SourceSubnet: "10.1.0.0/16"}},
		Route: []*networking.RouteDestination{{Destination: &networking.Destination{Host: "b.com"}}},
	}}}
	const redirected, bound = "redirected", "bound"
	for name, tt := range map[string]struct {
		proxy    string
		address  string
		parts    []any
		listener string
		to, from string
		bytes    string // the cluster
	}{
		"a service's port, redirected":    {redirected, "10.0.0.1", []any{detected()}, model.VirtualInbound, "10.0.0.1", "10.0.0.9", "inbound|7000||"},
		"a service's port, bound":         {bound, "10.0.0.1", []any{detected()}, "10.0.0.1_7000", "10.0.0.1", "10.0.0.9", "inbound|7000||"},
		"a Sidecar's port, redirected":    {redirected, "10.0.0.1", []any{entry(networking.CaptureMode_DEFAULT)}, model.VirtualInbound, "10.0.0.1", "10.0.0.9", "inbound|7000||"},
		"a Sidecar's port, captured":      {redirected, "10.0.0.1", []any{entry(networking.CaptureMode_IPTABLES)}, model.VirtualInbound, "10.0.0.1", "10.0.0.9", "inbound|7000||"},
		"a Sidecar's port that it binds":  {redirected, "10.0.0.1", []any{entry(networking.CaptureMode_NONE)}, "10.0.0.1_7000", "10.0.0.1", "10.0.0.9", "inbound|7000||"},
		"a Sidecar's port, all are bound": {bound, "10.0.0.1", []any{entry(networking.CaptureMode_DEFAULT)}, "10.0.0.1_7000", "10.0.0.1", "10.0.0.9", "inbound|7000||"},
		"an undeclared port":              {redirected, "10.0.0.1", []any{detected()}, model.VirtualInbound, "10.0.0.1:1234", "10.0.0.9", inboundPassthroughCluster},

		"an address":                 {redirected, "10.0.0.2", []any{detected("10.9.0.1")}, "10.9.0.1_7000", "10.9.0.1", "10.0.0.2", "outbound|7000||a.com"},
		"an address, and a source":   {redirected, "10.0.0.2", []any{detected("10.9.0.1"), fromNear, other}, "10.9.0.1_7000", "10.9.0.1", "10.1.0.2", "outbound|7000||b.com"},
		"an address, another source": {redirected, "10.0.0.2", []any{detected("10.9.0.1"), fromNear, other}, "10.9.0.1_7000", "10.9.0.1", "10.0.0.2", "outbound|7000||a.com"},
		"a range":                    {redirected, "10.0.0.2", []any{detected("10.9.0.0/16")}, "0.0.0.0_7000", "10.9.0.1", "10.0.0.2", "outbound|7000||a.com"},
		"a range, and a source":      {redirected, "10.0.0.2", []any{detected("10.9.0.0/16"), fromNear, other}, "0.0.0.0_7000", "10.9.0.1", "10.1.0.2", "outbound|7000||b.com"},
		"outside of the range":       {redirected, "10.0.0.2", []any{detected("10.9.0.0/16")}, "0.0.0.0_7000", "10.8.0.1", "10.0.0.2", passthroughCluster},
		"without an address":         {redirected, "10.0.0.2", []any{detected()}, "0.0.0.0_7000", "10.9.0.1", "10.0.0.2", passthroughCluster},
		"a loopback address, bound":  {bound, "10.0.0.2", []any{detected("127.0.0.5")}, "127.0.0.5_7000", "127.0.0.5", "127.0.0.1", "outbound|7000||a.com"},
		"loopback, bound":            {bound, "10.0.0.2", []any{detected()}, "127.0.0.1_7000", "127.0.0.1", "127.0.0.1", "outbound|7000||a.com"},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := map[string]any{"NAMESPACE": "default"}
			if tt.proxy == bound {
				metadata["INTERCEPTION_MODE"] = "NONE"
			}
			proxy, err := ParseProxy(envoyNode(t, "sidecar~"+tt.address+"~app.default~"+clusterDomain, metadata))
			if err != nil {
				t.Fatal(err)
			}
			l := served(t, Build(mesh(tt.parts...), ViewOf(proxy)).Listeners, tt.listener)
			c := connection{port: 7000, to: tt.to, from: tt.from}
			if ip, _, other := strings.Cut(tt.to, ":"); other {
				c.port, c.to = 1234, ip
			}
			for _, kind := range []struct{ transport, application, want string }{
				{"raw_buffer", "http/1.1", "HTTP"}, {"raw_buffer", "h2c", "HTTP"}, {"raw_buffer", "", tt.bytes}, {"tls", "", tt.bytes},
			} {
				c.transport, c.application = kind.transport, kind.application
				if got := leadsTo(t, chainFor(l, c)); got != kind.want {
					t.Errorf("%s %s goes to %s, want %s", kind.transport, kind.application, got, kind.want)
				}
			}
		})
	}
}

// leadsTo returns where the connections of a chain go: a cluster, or "HTTP".
func leadsTo(t *testing.T, c *listenerv3.FilterChain) string {
	t.Helper()
	if c == nil {
		return "no chain: the connection is closed"
	}
	filter := c.Filters[len(c.Filters)-1]
	if filter.Name == hcmFilter {
		return "HTTP"
	}
	proxy := &tcpproxyv3.TcpProxy{}
	if err := filter.GetTypedConfig().UnmarshalTo(proxy); err != nil {
		t.Fatal(err)
	}
	return proxy.GetCluster()
}
