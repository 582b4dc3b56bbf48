package xds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	mcpv1 "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A gRPC client receives only the parts of a policy that every gRPC client supports.
func TestProxylessClusters(t *testing.T) {
	simple := func(l networking.LoadBalancerSettings_SimpleLB) *networking.TrafficPolicy {
		return &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
			LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: l},
		}}
	}
	for name, test := range map[string]struct {
		policy   *networking.TrafficPolicy
		balancer clusterv3.Cluster_LbPolicy
		limit    uint32
	}{
		"nothing said":   {nil, clusterv3.Cluster_ROUND_ROBIN, 0},
		"least requests": {simple(networking.LoadBalancerSettings_LEAST_REQUEST), clusterv3.Cluster_ROUND_ROBIN, 0},
		"random":         {simple(networking.LoadBalancerSettings_RANDOM), clusterv3.Cluster_ROUND_ROBIN, 0},
		"a hash": {&networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
			LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{
				HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: "x"},
			}},
		}}, clusterv3.Cluster_RING_HASH, 0},
		"requests": {&networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{
			Http: &networking.ConnectionPoolSettings_HTTPSettings{Http2MaxRequests: 7},
			Tcp:  &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: 3},
		}}, clusterv3.Cluster_ROUND_ROBIN, 7},
		"TLS": {&networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}}, clusterv3.Cluster_ROUND_ROBIN, 0},
	} {
		t.Run(name, func(t *testing.T) {
			parts := []any{service(fqdn("echo"), model.Port{Name: "grpc", Number: 90, Protocol: model.GRPC}, at("10.0.0.2", "v1"))}
			if test.policy != nil {
				parts = append(parts, &networking.DestinationRule{Host: "echo", TrafficPolicy: test.policy})
			}
			c := clusterOf(t, mesh(parts...), proxylessView(t), outboundName(90, "", fqdn("echo")))
			want := proto.CloneOf(c)
			want.LbPolicy, want.CircuitBreakers, want.TransportSocket, want.TypedExtensionProtocolOptions = test.balancer, nil, nil, nil
			if test.limit != 0 {
				want.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{}}}
				want.CircuitBreakers.Thresholds[0].MaxRequests = unlimited()
				want.CircuitBreakers.Thresholds[0].MaxRequests.Value = test.limit
			}
			if !proto.Equal(c, want) {
				t.Errorf("got %v\nwant %v", c, want)
			}
		})
	}
}

// Names are resolved by LOGICAL_DNS, the only such cluster type in gRPC. Envoy's newer cluster type, which is not
// deprecated, is rejected by gRPC.
func TestProxylessNames(t *testing.T) {
	s := service(fqdn("echo"), model.Port{Name: "grpc", Number: 90, Protocol: model.GRPC}, at("echo.example.com", "v1"))
	for _, s.Resolution = range []model.Resolution{model.ResolutionDNS, model.ResolutionDNSRoundRobin} {
		c := clusterOf(t, mesh(s), proxylessView(t), outboundName(90, "", s.Host))
		if c.GetType() != clusterv3.Cluster_LOGICAL_DNS || !singleEndpoint(c.LoadAssignment) || c.GetClusterType() != nil {
			t.Errorf("%v: got %v", s.Resolution, c)
		}
	}
}

// A client may use a short name of a service; a server requests a listener by its own address.
func TestProxylessListeners(t *testing.T) {
	s := service(fqdn("echo"), model.Port{Name: "grpc", Number: 90, Target: 9090, Protocol: model.GRPC}, at("10.0.0.1", "v1"))
	r := Build(mesh(s), proxylessView(t))
	var got []string
	for _, l := range r.Listeners {
		got = append(got, l.Name)
	}
	for _, want := range []string{
		"echo:90", "echo.default:90", "echo.default.svc:90", fqdn("echo") + ":90",
		serverListenerPrefix + "0.0.0.0:9090", serverListenerPrefix + "[::]:9090", serverListenerPrefix + "10.0.0.1:9090",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no listener %s in %v", want, got)
		}
	}
	if i := slices.IndexFunc(r.Listeners, func(l *listenerv3.Listener) bool {
		return strings.HasPrefix(l.Name, "virtual") || len(l.ListenerFilters) > 0
	}); i >= 0 {
		t.Errorf("gRPC is told of %s", r.Listeners[i].Name)
	}
}

func proxylessView(t *testing.T) View {
	t.Helper()
	proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.1~echo.default~"+clusterDomain, map[string]any{"NAMESPACE": "default", "GENERATOR": "grpc"}))
	if err != nil {
		t.Fatal(err)
	}
	return ViewOf(proxy)
}

// A dry run of a policy is one at another control plane too: enforced there, an ALLOW would let in whom no other one does. To end it is a change of the object.
func TestDryRunsAreSentAsSuch(t *testing.T) {
	versions := map[string]bool{}
	for _, dry := range []bool{true, false} {
		o := &model.Object{
			Meta: model.Meta{Kind: "AuthorizationPolicy", Namespace: "shop", Name: "a", DryRun: dry},
			Spec: &security.AuthorizationPolicy{Rules: []*security.Rule{{}}},
		}
		var r mcpv1.Resource
		if err := EncodeObject(o).UnmarshalTo(&r); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		if dry {
			want["istio.io/dry-run"] = "true"
		}
		if !maps.Equal(r.Metadata.Annotations, want) {
			t.Errorf("a dry run is %t, and its annotations are %v", dry, r.Metadata.Annotations)
		}
		versions[r.Metadata.Version] = true
	}
	if len(versions) != 2 {
		t.Errorf("both have the version %v", versions)
	}
}
