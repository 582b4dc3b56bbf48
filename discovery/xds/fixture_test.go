package xds

import (
	"fmt"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const clusterDomain = "default.svc.cluster.local"

func fqdn(name string) string { return name + "." + clusterDomain }

func httpPort(n uint32) model.Port { return model.Port{Name: "http", Number: n, Protocol: model.HTTP} }

func service(host string, port model.Port, endpoints ...model.Endpoint) *model.Service {
	return &model.Service{
		Right: model.RightFull, Host: host, Namespace: "default", Resolution: model.ResolutionStatic,
		Ports: []model.Port{port}, Endpoints: endpoints,
	}
}

func at(address string, version string) model.Endpoint {
	return model.Endpoint{Address: address, Labels: map[string]string{"version": version}}
}

// mesh returns a mesh of services and Istio specs, all in namespace default. Specs are named in their order.
func mesh(parts ...any) *model.Mesh {
	group := model.Group{}
	for i, part := range parts {
		if s, ok := part.(*model.Service); ok {
			group.Services = append(group.Services, s)
			continue
		}
		group.Objects = append(group.Objects, &model.Object{Meta: model.Meta{Namespace: "default", Name: fmt.Sprintf("%03d", i)}, Spec: part})
	}
	return model.New(slices.Values([]model.Group{group}))
}

func sidecar(entries ...*networking.IstioIngressListener) *networking.Sidecar {
	return &networking.Sidecar{Ingress: entries}
}

func ingress(port uint32, protocol, endpoint string) *networking.IstioIngressListener {
	return &networking.IstioIngressListener{
		Port:            &networking.SidecarPort{Number: port, Protocol: protocol, Name: protocol},
		DefaultEndpoint: endpoint,
	}
}

func versions(host string) *networking.DestinationRule {
	return &networking.DestinationRule{Host: host, Subsets: []*networking.Subset{
		{Name: "v1", Labels: map[string]string{"version": "v1"}},
		{Name: "v2", Labels: map[string]string{"version": "v2"}},
	}}
}

func to(host, subset string, weight int32) *networking.HTTPRouteDestination {
	return &networking.HTTPRouteDestination{
		Destination: &networking.Destination{Host: host, Subset: subset}, Weight: weight,
	}
}

func exact(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: s}}
}

func prefix(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: s}}
}

func regex(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: s}}
}

func envoyNode(t *testing.T, id string, metadata map[string]any) *corev3.Node {
	t.Helper()
	fields, err := structpb.NewStruct(metadata)
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{Id: id, Metadata: fields}
}

// viewOf returns the view of a sidecar at ip with an HTTP proxy on port 15080.
func viewOf(t *testing.T, ip string) View {
	t.Helper()
	proxy, err := ParseProxy(envoyNode(t, "sidecar~"+ip+"~app.default~"+clusterDomain, map[string]any{
		"INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": "15080", "NAMESPACE": "default",
	}))
	if err != nil {
		t.Fatal(err)
	}
	return ViewOf(proxy)
}
