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

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Proxyless reports whether the proxy is no Envoy but a program's own gRPC, by Istio's metadata GENERATOR.
func (p Proxy) Proxyless() bool { return p.Metadata.Extra["GENERATOR"] == "grpc" }

// buildProxyless returns what gRPC reads: to the target xds:///HOST:PORT belongs a listener of that name with an API
// listener, a route configuration of the cluster's name, the cluster, and its endpoints.
func buildProxyless(m *model.Mesh, v Outbound) *Resources {
	r := &Resources{}
	for _, s := range m.Services() {
		r.addService(s, m.DestinationRule(s.Host))
		for _, port := range s.Ports {
			if !port.Protocol.IsHTTP() {
				continue
			}
			name := outboundName(port.Number, "", s.Host)
			r.Listeners = append(r.Listeners, apiListener(fmt.Sprintf("%s:%d", s.Host, port.Number), name))
			r.Routes = append(r.Routes, &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
				Name: name, Domains: domains(s.Host, port.Number, v.Domain), Routes: httpRoutes(m, s, port.Number),
			}}})
		}
	}
	for i, a := range r.Endpoints {
		r.Endpoints[i] = withLocality(a)
	}
	return r.normalize()
}

func apiListener(name, routes string) *listenerv3.Listener {
	manager := newHCM(name)
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: overADS(), RouteConfigName: routes}}
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
