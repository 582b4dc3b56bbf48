package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Chains are written as "destinations names". A later chain loses what an earlier one matches, and nothing else.
func TestUniqueChains(t *testing.T) {
	for name, test := range map[string]struct{ chains, want string }{
		"nothing shared":           {"10.0.0.0/8 a.b; 10.0.0.0/8 c.d; 11.0.0.0/8 a.b", "10.0.0.0/8 a.b; 10.0.0.0/8 c.d; 11.0.0.0/8 a.b"},
		"the same":                 {"10.0.0.0/8 -; 10.0.0.0/8 -", "10.0.0.0/8 -"},
		"any":                      {"- -; - -; - a.b", "- -; - a.b"},
		"a name of several":        {"- a.b,c.d; - c.d,e.f", "- a.b,c.d; - e.f"},
		"a destination of several": {"10.0.0.0/8,11.0.0.0/8 -; 11.0.0.0/8,12.0.0.0/8 -", "10.0.0.0/8,11.0.0.0/8 -; 12.0.0.0/8 -"},
		"a name at one of them": {
			"10.0.0.0/8 a.b; 10.0.0.0/8,11.0.0.0/8 a.b,c.d",
			"10.0.0.0/8 a.b; 10.0.0.0/8 c.d; 11.0.0.0/8 a.b,c.d",
		},
		"most of many":                {"11.0.0.0/8 -; 10.0.0.0/8,11.0.0.0/8,12.0.0.0/8 -", "11.0.0.0/8 -; 10.0.0.0/8,12.0.0.0/8 -"},
		"an address is its own range": {"10.0.0.1 -; 10.0.0.1/32 -; 10.0.0.1/24 -", "10.0.0.1/32 -; 10.0.0.0/24 -"},
		"twice in one":                {"10.0.0.1,10.0.0.1/32 a.b,a.b", "10.0.0.1/32 a.b"},
	} {
		t.Run(name, func(t *testing.T) {
			var chains []*listenerv3.FilterChain
			for text := range strings.SplitSeq(test.chains, "; ") {
				to, names, _ := strings.Cut(text, " ")
				chains = append(chains, sniChain(listed(names), listed(to), observed{}.tcpTo("a")))
			}
			var got []string
			for _, c := range uniqueChains(chains) {
				var to []string
				for _, r := range c.FilterChainMatch.PrefixRanges {
					to = append(to, fmt.Sprintf("%s/%d", r.AddressPrefix, r.PrefixLen.GetValue()))
				}
				got = append(got, orDash(to)+" "+orDash(c.FilterChainMatch.ServerNames))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A chain with many destinations is copied only where it is split, and then without them: else the cost is quadratic.
func TestManyDestinationsCostLittle(t *testing.T) {
	destinations := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255))
		}
		return out
	}
	allocations := func(n int) float64 {
		half := sniChain(nil, destinations(0, n/2), observed{}.tcpTo("a"))
		named := sniChain([]string{"a.b"}, destinations(n/2, n/2+n/4), observed{}.tcpTo("a"))
		whole := sniChain([]string{"a.b", "c.d"}, destinations(n/4, n), observed{}.tcpTo("b"))
		return testing.AllocsPerRun(1, func() { uniqueChains([]*listenerv3.FilterChain{half, named, whole}) })
	}
	if few, many := allocations(200), allocations(1600); many > 12*few {
		t.Errorf("200 destinations cost %v allocations, 1,600 %v: more than linear", few, many)
	}
}

func listed(s string) []string {
	if s == "-" {
		return nil
	}
	return strings.Split(s, ",")
}

func orDash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ",")
}

// At a port without a declared protocol, the server receives the protocol of the client, outbound and inbound. At a
// gateway, where the client may use HTTP/2 to the gateway only, it receives HTTP/1.1. No setting of the mesh changes
// the protocol that a workload receives.
func TestHTTPVersionUpstream(t *testing.T) {
	upgrade := &networking.ConnectionPoolSettings{Http: &networking.ConnectionPoolSettings_HTTPSettings{
		H2UpgradePolicy: networking.ConnectionPoolSettings_HTTPSettings_UPGRADE,
	}}
	everywhere := &meshconfig.MeshConfig{H2UpgradePolicy: meshconfig.MeshConfig_UPGRADE}
	port := func(p model.Protocol) model.Port { return model.Port{Name: "p", Number: 80, Protocol: p} }
	for name, test := range map[string]struct {
		port    model.Port
		parts   []any
		sidecar string // outbound, inbound
		gateway string
	}{
		"none": {port(model.Unknown), nil, "client client", "1"},
		"HTTP": {port(model.HTTP), nil, "1 1", "1"},
		"gRPC": {port(model.GRPC), nil, "2 2", "2"},
		"none, upgraded": {
			port(model.Unknown),
			[]any{&networking.DestinationRule{Host: "a.com", TrafficPolicy: &networking.TrafficPolicy{ConnectionPool: upgrade}}},
			"client client", "2",
		},
		"none, upgraded in the mesh": {port(model.Unknown), []any{everywhere}, "client client", "1"},
		"HTTP, upgraded in the mesh": {port(model.HTTP), []any{everywhere}, "2 1", "2"},
		"HTTP, upgraded for the workload": {
			port(model.HTTP), []any{&networking.Sidecar{InboundConnectionPool: upgrade}}, "1 1", "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := mesh(append(test.parts, service("a.com", test.port, at("10.0.0.1", "v1")))...)
			sidecar := viewAt(t, "sidecar~10.0.0.1~app.default~"+clusterDomain)
			version := func(v View, cluster string) string {
				switch o := protocolsOf(t, clusterOf(t, m, v, cluster)); {
				case o.GetUseDownstreamProtocolConfig() != nil:
					return "client"
				case o.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil:
					return "2"
				default:
					return "1"
				}
			}
			if got := version(sidecar, "outbound|80||a.com") + " " + version(sidecar, "inbound|80||"); got != test.sidecar {
				t.Errorf("sidecar: %s, want %s", got, test.sidecar)
			}
			if got := version(viewAt(t, "router~10.0.0.2~gw.default~"+clusterDomain), "outbound|80||a.com"); got != test.gateway {
				t.Errorf("gateway: %s, want %s", got, test.gateway)
			}
		})
	}
}

// HTTP to a port that no service declares is handled as HTTP. On ports with a known protocol nothing is detected: a
// client may wait for the server to send first.
func TestInboundDetection(t *testing.T) {
	s := service("a.com", httpPort(80), at("10.0.0.1", "v1"))
	s.Ports = append(s.Ports, model.Port{Name: "tcp", Number: 3306, Protocol: model.TCP}, model.Port{Name: "any", Number: 7000})
	r := Build(mesh(s), viewAt(t, "sidecar~10.0.0.1~app.default~"+clusterDomain))
	i := slices.IndexFunc(r.Listeners, func(l *listenerv3.Listener) bool { return l.Name == model.VirtualInbound })
	l := r.Listeners[i]
	var chains []string
	for _, c := range l.FilterChains {
		chains = append(chains, c.Name+" "+c.FilterChainMatch.TransportProtocol+" "+strings.Join(c.FilterChainMatch.ApplicationProtocols, " "))
	}
	want := []string{
		"virtualInbound-blackhole  ", "virtualInbound-catchall-http raw_buffer http/1.1 h2c", "inbound|80||  ", "inbound|3306||  ",
		"inbound|7000|| raw_buffer http/1.1 h2c", "inbound|7000||  ", "inbound|7000|| raw_buffer ",
	}
	if !slices.Equal(chains, want) {
		t.Errorf("chains are %q, want %q", chains, want)
	}
	var passed []int32
	for _, f := range l.ListenerFilters {
		for _, rule := range f.GetFilterDisabled().GetOrMatch().GetRules() {
			passed = append(passed, rule.GetDestinationPortRange().GetStart())
		}
	}
	if want := []int32{15006, 80, 3306}; !slices.Equal(passed, want) {
		t.Errorf("nothing is looked for at %d, want %d", passed, want)
	}
}

// viewAt returns the view of a proxy under REDIRECT.
func viewAt(t *testing.T, id string) View {
	t.Helper()
	proxy, err := ParseProxy(envoyNode(t, id, map[string]any{"NAMESPACE": "default"}))
	if err != nil {
		t.Fatal(err)
	}
	return ViewOf(proxy)
}
