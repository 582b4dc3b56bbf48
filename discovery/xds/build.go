package xds

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Resources is a configuration of Envoy, each list sorted by name and without duplicate names. Whoever holds it may
// read it only: proxies share it.
type Resources struct {
	Clusters  []*clusterv3.Cluster
	Endpoints []*endpointv3.ClusterLoadAssignment
	Listeners []*listenerv3.Listener
	Routes    []*routev3.RouteConfiguration
}

// Build returns the whole configuration of the proxies with view v.
func Build(m *model.Mesh, v View) *Resources {
	out, in := BuildOutbound(m, v.Outbound), BuildInbound(m, v.Inbound)
	all := &Resources{
		Clusters:  slices.Concat(out.Clusters, in.Clusters),
		Endpoints: slices.Concat(out.Endpoints, in.Endpoints),
		Listeners: slices.Concat(out.Listeners, in.Listeners),
		Routes:    slices.Concat(out.Routes, in.Routes),
	}
	return all.normalize()
}

// BuildOutbound returns what leads to the mesh's services. Its endpoints and routes are complete: inbound has none.
func BuildOutbound(m *model.Mesh, v Outbound) *Resources {
	if v.Proxyless {
		return buildProxyless(m, v)
	}
	r := &Resources{}
	for _, service := range m.Services() {
		r.addService(service, m.DestinationRule(service.Host))
	}
	if v.HTTPProxyPort != 0 {
		r.Listeners = append(r.Listeners, httpProxyListener(v.HTTPProxyPort))
		r.Routes = append(r.Routes, httpProxyRoutes(m, v.Domain))
	}
	return r.normalize()
}

// BuildInbound returns what leads to the proxy's own workload.
func BuildInbound(m *model.Mesh, v Inbound) *Resources {
	r := &Resources{}
	for _, port := range inboundPorts(m, v) {
		r.Clusters = append(r.Clusters, port.cluster())
		r.Listeners = append(r.Listeners, port.listener())
	}
	return r.normalize()
}

// InboundInputs returns what BuildInbound reads of a mesh for v: as long as those are the same, so is what it returns.
func InboundInputs(m *model.Mesh, v Inbound) []any {
	inputs := []any{m.Sidecar(v.Namespace, v.Labels())}
	for _, s := range m.ServicesAt(v.addresses()...) {
		inputs = append(inputs, s)
	}
	return inputs
}

// normalize sorts by name; of two with one name, which Envoy would reject, the first stays.
func (r *Resources) normalize() *Resources {
	r.Clusters = sortByName(r.Clusters, (*clusterv3.Cluster).GetName)
	r.Endpoints = sortByName(r.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
	r.Listeners = sortByName(r.Listeners, (*listenerv3.Listener).GetName)
	r.Routes = sortByName(r.Routes, (*routev3.RouteConfiguration).GetName)
	return r
}

func sortByName[T any](list []T, name func(T) string) []T {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	return slices.CompactFunc(list, func(a, b T) bool { return name(a) == name(b) })
}
