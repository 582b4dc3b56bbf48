package xds

import (
	"strings"
	"testing"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// A gateway trusts data about clients by MeshConfig or by its own metadata; a sidecar trusts none.
func TestTopology(t *testing.T) {
	everywhere := &meshconfig.MeshConfig{DefaultConfig: &meshconfig.ProxyConfig{GatewayTopology: &meshconfig.Topology{
		NumTrustedProxies: 1, ForwardClientCertDetails: meshconfig.ForwardClientCertDetails_FORWARD_ONLY,
	}}}
	gateway := &networking.Gateway{Servers: []*networking.Server{{
		Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "http"}, Hosts: []string{"*"},
	}}}
	own := map[string]any{"gatewayTopology": map[string]any{
		"numTrustedProxies": 2, "forwardClientCertDetails": "ALWAYS_FORWARD_ONLY", "proxyProtocol": map[string]any{}, "unknown": nil,
	}}
	for name, test := range map[string]struct {
		parts   []any
		own     any
		hops    uint32
		details hcmv3.HttpConnectionManager_ForwardClientCertDetails
		filters int
	}{
		"nothing said":  {nil, nil, 0, hcmv3.HttpConnectionManager_SANITIZE_SET, 0},
		"the mesh's":    {[]any{everywhere}, nil, 1, hcmv3.HttpConnectionManager_FORWARD_ONLY, 0},
		"its own":       {[]any{everywhere}, own, 2, hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY, 1},
		"its own other": {[]any{everywhere}, map[string]any{"concurrency": 2}, 1, hcmv3.HttpConnectionManager_FORWARD_ONLY, 0},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := map[string]any{"NAMESPACE": "default"}
			if test.own != nil {
				metadata["PROXY_CONFIG"] = test.own
			}
			proxy, err := ParseProxy(envoyNode(t, "router~10.0.0.1~gw.default~"+clusterDomain, metadata))
			if err != nil {
				t.Fatal(err)
			}
			l := Build(mesh(append(test.parts, gateway)...), ViewOf(proxy)).Listeners[0]
			m := &hcmv3.HttpConnectionManager{}
			if err := l.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(m); err != nil {
				t.Fatal(err)
			}
			if m.XffNumTrustedHops != test.hops || m.ForwardClientCertDetails != test.details || len(l.ListenerFilters) != test.filters {
				t.Errorf("%d hops, %v, %d listener filters; want %d, %v, %d", m.XffNumTrustedHops, m.ForwardClientCertDetails,
					len(l.ListenerFilters), test.hops, test.details, test.filters)
			}
			sets := test.details == hcmv3.HttpConnectionManager_SANITIZE_SET
			if got := m.SetCurrentClientCertDetails != nil; got != sets {
				t.Errorf("details of the certificate are sent: %v, want %v", got, sets)
			}
		})
	}
	for name, wrong := range map[string]any{
		"PROXY_CONFIG: is \"text\"":    "text",
		"PROXY_CONFIG.gatewayTopology": map[string]any{"gatewayTopology": map[string]any{"numTrustedProxies": "many"}},
	} {
		_, err := ParseProxy(envoyNode(t, "router~10.0.0.1~gw.default~"+clusterDomain, map[string]any{"PROXY_CONFIG": wrong}))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, want %q", err, name)
		}
	}
}
