package xds

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// adsCluster is the cluster from which Envoy would fetch resources over ADS.
const adsCluster = "xds-grpc"

// validate checks with the real Envoy that it accepts r as a static bootstrap.
func validate(t *testing.T, r *Resources) {
	t.Helper()
	config, err := protojson.Marshal(static(t, r))
	if err != nil {
		t.Fatal(err)
	}
	if refusal := refusalOf(t, config); refusal != "" {
		t.Errorf("envoy --mode validate: %s", refusal)
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

// static inlines into r's clusters and listeners the resources that they would fetch.
func static(t *testing.T, r *Resources) *bootstrapv3.Bootstrap {
	t.Helper()
	b := bootstrap()
	out := b.StaticResources
	for _, c := range r.Clusters {
		c = proto.CloneOf(c)
		if c.GetType() == clusterv3.Cluster_EDS {
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
			c.EdsClusterConfig = nil
			c.LoadAssignment = served(t, r.Endpoints, c.Name)
		}
		withoutADS(t, c.ProtoReflect())
		out.Clusters = append(out.Clusters, c)
	}
	for _, l := range r.Listeners {
		l = proto.CloneOf(l)
		inlineRoutes(t, l, r)
		out.Listeners = append(out.Listeners, l)
	}
	return b
}

// withoutADS makes a static cluster fetch its secrets by a stream of its own: Envoy creates static clusters before ADS,
// and Envoy 1.40 crashes on secrets over ADS there.
func withoutADS(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if packed, ok := m.Interface().(*anypb.Any); ok {
		inner, err := packed.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		withoutADS(t, inner.ProtoReflect())
		packed.Value = pack(inner).Value
		return
	}
	if secret, ok := m.Interface().(*tlsv3.SdsSecretConfig); ok && secret.GetSdsConfig().GetAds() != nil {
		secret.SdsConfig.ConfigSourceSpecifier = &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: bootstrap().DynamicResources.AdsConfig}
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				withoutADS(t, v.List().Get(i).Message())
			}
		default:
			withoutADS(t, v.Message())
		}
		return true
	})
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
				manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: served(t, r.Routes, name)}
				filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pack(manager)}
			}
		}
	}
}

// served returns the resource with a name; if there is none, the test fails.
func served[T interface {
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
