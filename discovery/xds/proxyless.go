package xds

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Proxyless reports whether the proxy is no Envoy but a program's own gRPC, by Istio's metadata GENERATOR.
func (p Proxy) Proxyless() bool { return p.Metadata.Extra["GENERATOR"] == "grpc" }

// buildProxyless returns what gRPC reads: to the target xds:///HOST:PORT belongs a listener of that name with an API
// listener, a route configuration of the cluster's name, the cluster, and its endpoints.
func buildProxyless(m *model.Mesh, v Outbound) *Resources {
	scope, seen, out := m.Scope(v.Namespace, v.Labels()), observe(m, v.Namespace), &Resources{}
	rules := map[*model.Service]*networking.VirtualService{}
	for _, egress := range scope.Egress {
		for _, s := range egress.Services {
			rules[s] = ruleSpec(egress.Rules.For(s.Host))
		}
	}
	for _, s := range scope.Services() {
		made := serviceClusters(s, scope.DestinationRule(s), v, m.Settings())
		out.Clusters, out.Endpoints = append(out.Clusters, made.Clusters...), append(out.Endpoints, made.Endpoints...)
		for _, port := range s.Ports {
			if !port.Protocol.IsHTTP() {
				continue
			}
			name := outboundName(port.Number, "", s.Host)
			out.Listeners = append(out.Listeners, seen.apiListener(fmt.Sprintf("%s:%d", s.Host, port.Number), name))
			out.Routes = append(out.Routes,
				&routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
					Name: name, Domains: domains(s, port.Number, v.Domain),
					Routes: router{scope, model.MeshGateway, port.Number}.serviceRoutes(s, rules[s]),
				}}})
		}
	}
	for i, a := range out.Endpoints {
		out.Endpoints[i] = withLocality(a)
	}
	return out.normalize()
}

func (o observed) apiListener(name, routes string) *listenerv3.Listener {
	manager := o.newHCM(name, corev3.TrafficDirection_OUTBOUND)
	manager.HttpFilters = manager.HttpFilters[len(manager.HttpFilters)-1:] // the router: gRPC refuses filters that it does not have
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
		ConfigSource:    overADS(),
		RouteConfigName: routes,
	}}
	return &listenerv3.Listener{Name: name, ApiListener: &listenerv3.ApiListener{ApiListener: pack(manager)}}
}

// withLocality names the locality and weighs it: gRPC passes over one without either.
func withLocality(a *endpointv3.ClusterLoadAssignment) *endpointv3.ClusterLoadAssignment {
	a = proto.Clone(a).(*endpointv3.ClusterLoadAssignment)
	for _, l := range a.Endpoints {
		if l.Locality == nil {
			l.Locality = &corev3.Locality{}
		}
		if l.LoadBalancingWeight == nil {
			l.LoadBalancingWeight = wrapperspb.UInt32(uint32(max(1, len(l.LbEndpoints))))
		}
	}
	return a
}
