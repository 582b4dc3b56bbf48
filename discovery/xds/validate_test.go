package xds

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// validate asks the real Envoy whether it would accept r, as a static bootstrap.
func validate(t *testing.T, r *Resources) {
	t.Helper()
	config, err := protojson.Marshal(static(t, r))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, envoyBinary(t), "--mode", "validate", "-c", file).CombinedOutput()
	if err != nil {
		t.Errorf("envoy --mode validate: %v\n%s", err, out)
	}
}

func envoyBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("ENVOY"); path != "" {
		return path
	}
	if path, err := filepath.Abs("../../bin/envoy"); err == nil {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("envoy")
	if err != nil {
		t.Fatal("no Envoy in $ENVOY, bin/envoy or PATH: run make setup")
	}
	return path
}

// static puts into r's clusters and listeners what they would fetch.
func static(t *testing.T, r *Resources) *bootstrapv3.Bootstrap {
	t.Helper()
	out := &bootstrapv3.Bootstrap_StaticResources{}
	for _, c := range r.Clusters {
		c = proto.CloneOf(c)
		if c.GetType() == clusterv3.Cluster_EDS {
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
			c.EdsClusterConfig = nil
			c.LoadAssignment = find(t, r.Endpoints, c.Name)
		}
		out.Clusters = append(out.Clusters, c)
	}
	for _, l := range r.Listeners {
		l = proto.CloneOf(l)
		inlineRoutes(t, l, r)
		out.Listeners = append(out.Listeners, l)
	}
	out.Clusters = append(out.Clusters, http2Cluster("xds-grpc"))
	return &bootstrapv3.Bootstrap{
		StaticResources: out,
		Node:            &corev3.Node{Id: "test", Cluster: "test"}, // who fetches secrets must say who it is
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{AdsConfig: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: "xds-grpc"},
			}}},
		}},
	}
}

func http2Cluster(name string) *clusterv3.Cluster {
	c := newCluster(name)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	c.LoadAssignment = loadAssignment(name, nil)
	setHTTPOptions(c, httpOptions{http2: true})
	return c
}

func inlineRoutes(t *testing.T, l *listenerv3.Listener, r *Resources) {
	t.Helper()
	chains := l.FilterChains
	if l.DefaultFilterChain != nil {
		chains = append(chains[:len(chains):len(chains)], l.DefaultFilterChain)
	}
	for _, chain := range chains {
		for _, filter := range chain.Filters {
			manager := &hcmv3.HttpConnectionManager{}
			if !filter.GetTypedConfig().MessageIs(manager) {
				continue
			}
			if err := filter.GetTypedConfig().UnmarshalTo(manager); err != nil {
				t.Fatal(err)
			}
			if name := manager.GetRds().GetRouteConfigName(); name != "" {
				manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: find(t, r.Routes, name)}
				filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pack(manager)}
			}
		}
	}
}

// find returns the resource of that name; one that nobody would serve is a fault.
func find[T interface {
	comparable
	proto.Message
}](t *testing.T, list []T, name string,
) T {
	t.Helper()
	for _, m := range list {
		fields := m.ProtoReflect()
		if fields.Get(fields.Descriptor().Fields().ByNumber(1)).String() == name {
			return m
		}
	}
	t.Fatalf("nothing named %s is served", name)
	panic("unreachable")
}
