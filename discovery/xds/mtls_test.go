package xds

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Mutual TLS needs a certificate of the client, and a sidecar of the server that takes it; a DestinationRule, the mesh and the server's
// policy can turn it off.
func TestAutomaticMutualTLS(t *testing.T) {
	peer := func(mode security.PeerAuthentication_MutualTLS_Mode) *security.PeerAuthentication {
		return &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: mode}}
	}
	certified := map[string]any{"PILOTLIGHT_SDS": "files", "PILOTLIGHT_CERTIFICATE": "true"}
	for name, test := range map[string]struct {
		metadata map[string]any
		more     []any
		change   func(*model.Service)
		sockets  int  // the cluster's
		mutual   bool // the endpoint's metadata
	}{
		"a certificate":                {certified, nil, nil, 2, true},
		"our agent without one":        {map[string]any{"PILOTLIGHT_SDS": "files"}, nil, nil, 0, false},
		"no agent":                     {map[string]any{}, nil, nil, 0, false},
		"a word that is not true":      {map[string]any{"PILOTLIGHT_SDS": "files", "PILOTLIGHT_CERTIFICATE": "yes"}, nil, nil, 0, false},
		"no SDS for it":                {map[string]any{"PILOTLIGHT_SDS": "none", "PILOTLIGHT_CERTIFICATE": "true"}, nil, nil, 0, false},
		"Istio's agent":                {map[string]any{"ISTIO_VERSION": "1.29.2", "PROXY_CONFIG": map[string]any{"discoveryAddress": "a:15012"}}, nil, nil, 2, true},
		"files":                        {map[string]any{"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k", "TLS_CLIENT_ROOT_CERT": "/r"}, nil, nil, 2, true},
		"files without roots":          {map[string]any{"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k"}, nil, nil, 0, false},
		"a server without a sidecar":   {certified, nil, func(s *model.Service) { s.Endpoints[0].Labels = nil }, 2, false},
		"outside of the mesh":          {certified, nil, func(s *model.Service) { s.External = true }, 0, false},
		"unknown endpoints":            {certified, nil, func(s *model.Service) { s.Resolution, s.Endpoints = model.ResolutionNone, nil }, 0, false},
		"a DestinationRule":            {certified, []any{&networking.DestinationRule{Host: "app.test", TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{}}}}, nil, 0, false},
		"the mesh turns it off":        {certified, []any{&meshconfig.MeshConfig{EnableAutoMtls: wrapperspb.Bool(false)}}, nil, 0, false},
		"the mesh turns it on":         {certified, []any{&meshconfig.MeshConfig{EnableAutoMtls: wrapperspb.Bool(true)}}, nil, 2, true},
		"the server's policy refuses":  {certified, []any{peer(security.PeerAuthentication_MutualTLS_DISABLE)}, nil, 2, false},
		"the server's policy wants it": {certified, []any{peer(security.PeerAuthentication_MutualTLS_STRICT)}, nil, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := service("app.test", httpPort(80), model.Endpoint{Address: "10.0.0.1", ServiceAccount: "app", Labels: map[string]string{"security.istio.io/tlsMode": "istio"}})
			if test.change != nil {
				test.change(s)
			}
			proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.9~client.default~"+clusterDomain, test.metadata))
			if err != nil {
				t.Fatal(err)
			}
			r := Build(mesh(append(test.more, s)...), ViewOf(proxy))
			for _, c := range r.Clusters {
				if c.Name == "outbound|80||app.test" && (len(c.TransportSocketMatches) != test.sockets || c.TransportSocket != nil) {
					t.Errorf("the cluster is %v", c)
				}
			}
			for _, a := range r.Endpoints {
				if got := a.Endpoints[0].LbEndpoints[0].Metadata != nil; got != test.mutual {
					t.Errorf("mutual TLS: %v, want %v", got, test.mutual)
				}
			}
		})
	}
}

// A policy that refuses nothing makes no cluster again, and for a proxy without a certificate none does.
func TestPoliciesThatClientsDoNotRead(t *testing.T) {
	s := service("app.test", httpPort(80), model.Endpoint{Address: "10.0.0.1", Labels: map[string]string{"security.istio.io/tlsMode": "istio"}})
	objects := func(mode security.PeerAuthentication_MutualTLS_Mode) []model.Group {
		return []model.Group{{Services: []*model.Service{s}, Objects: []*model.Object{{
			Meta: model.Meta{Namespace: "default", Name: "a"}, Spec: &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: mode}},
		}}}}
	}
	const off, on = security.PeerAuthentication_MutualTLS_DISABLE, security.PeerAuthentication_MutualTLS_STRICT
	before := model.New(slices.Values(objects(on)))
	for _, test := range []struct {
		certified bool
		mode      security.PeerAuthentication_MutualTLS_Mode
		same      bool
	}{{true, security.PeerAuthentication_MutualTLS_PERMISSIVE, true}, {true, off, false}, {false, off, true}} {
		v := Outbound{Namespace: "default", Identity: Identity{AgentSDS: true, Certified: test.certified}}
		last := RebuildWithSibling(nil, nil, before, v)
		now := RebuildWithSibling(last, nil, before.Next(slices.Values(objects(test.mode))), v)
		if got := last.Endpoints[0] == now.Endpoints[0]; got != test.same || got != proto.Equal(last.Endpoints[0], now.Endpoints[0]) {
			t.Errorf("%+v: the endpoints are the same: %v", test, got)
		}
	}
}
