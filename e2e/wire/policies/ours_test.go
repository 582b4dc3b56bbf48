//go:build wire

package policies

import (
	"encoding/json"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// workload is what Istio's tables have about the proxy: a workload of namespace foo, and the service that providers name.
const workload = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: httpbin, namespace: foo}
spec:
  workloadSelector: {labels: {app: httpbin}}
  ingress:
  - {port: {number: 8001, name: http, protocol: HTTP}, defaultEndpoint: "127.0.0.1:9001"}
  - {port: {number: 8002, name: tcp, protocol: TCP}, defaultEndpoint: "127.0.0.1:9002"}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: provider, namespace: foo}
spec:
  hosts: [my-custom-ext-authz.foo.svc.cluster.local]
  ports: [{number: 9000, name: grpc, protocol: GRPC}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1}]
---
`

// ours returns the filters that discovery puts before a workload for a case, in their order.
func (c policyCase) ours(t *testing.T) (filters []*anypb.Any) {
	t.Helper()
	objects := slices.Clone(c.keys)
	for _, item := range config.Read(append([]byte(workload), c.input...)) {
		switch {
		case item.Object != nil:
			objects = append(objects, item.Object)
		case item.Closed != nil:
			objects = append(objects, item.Closed)
		case len(item.Problems) > 0:
			t.Fatalf("%s: %+v", c.name, item.Problems)
		}
	}
	text, err := json.Marshal(c.mesh)
	if err != nil {
		t.Fatal(err)
	}
	settings, _ := config.DecodeSettings("MeshConfig", "mesh", text)
	if settings != nil {
		objects = append(objects, settings)
	}
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "foo", "LABELS": map[string]any{"app": "httpbin", "version": "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := xds.ParseProxy(&corev3.Node{Id: "sidecar~10.0.0.9~httpbin.foo~foo.svc.cluster.local", Metadata: metadata})
	if err != nil {
		t.Fatal(err)
	}
	m := model.New(slices.Values([]model.Group{{Objects: objects}}))
	for _, l := range xds.BuildInbound(m, xds.ViewOf(proxy).Inbound).Listeners {
		for _, chain := range l.FilterChains {
			if at := chain.FilterChainMatch.GetDestinationPort().GetValue(); c.tcp && at == 8002 {
				for _, f := range chain.Filters[:len(chain.Filters)-1] { // the last one is the TCP proxy
					filters = append(filters, f.GetTypedConfig())
				}
				return filters
			} else if c.tcp || at != 8001 {
				continue
			}
			manager := &hcmv3.HttpConnectionManager{}
			if err := chain.Filters[0].GetTypedConfig().UnmarshalTo(manager); err != nil {
				t.Fatal(err)
			}
			for _, f := range manager.HttpFilters {
				if slices.Contains([]string{"envoy.filters.http.rbac", "envoy.filters.http.ext_authz", "envoy.filters.http.jwt_authn"}, f.Name) {
					filters = append(filters, f.GetTypedConfig())
				}
			}
			return filters
		}
	}
	t.Fatalf("%s: no listener for the workload", c.name)
	return nil
}
