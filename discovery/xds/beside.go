package xds

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// RebuildBeside returns what RebuildOutbound does. What is equal to a message of beside, built for another view of the
// same mesh, is that message: views that differ in little then cost little. beside may be nil.
func RebuildBeside(last, beside *Resources, m *model.Mesh, v Outbound) *Resources {
	if v.Proxyless {
		return buildProxyless(m, v).reuse(beside)
	}
	if patched := last.patch(m, v); patched != nil {
		if len(m.Delta().Services) > 0 { // these lists are its own then
			patched.reuseEndpoints(beside)
		}
		return patched
	}
	return build(last, beside, m, v).reuse(last).reuse(beside)
}

func (r *Resources) reuseEndpoints(last *Resources) {
	if last != nil {
		reuseEqual(r.Clusters, last.Clusters, (*clusterv3.Cluster).GetName)
		reuseEqual(r.Endpoints, last.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
	}
}

// take puts beside's messages in the place of equal ones of a service that was just made, which nobody else has yet.
func (made *Resources) take(beside *Resources) {
	if beside == nil {
		return
	}
	takeEqual(made.Clusters, beside.Clusters, (*clusterv3.Cluster).GetName)
	takeEqual(made.Endpoints, beside.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
}

// take does the same for virtual hosts, and for all of them together.
func (t *routeTable) take(beside *Resources) {
	if beside == nil {
		return
	}
	i, ok := find(beside.Routes, t.config.Name, (*routev3.RouteConfiguration).GetName)
	if !ok {
		return
	}
	other := beside.Routes[i]
	byName := map[string]*routev3.VirtualHost{}
	for _, h := range other.VirtualHosts {
		byName[h.Name] = h
	}
	for i, h := range t.config.VirtualHosts {
		if known := byName[h.Name]; known != nil && proto.Equal(known, h) {
			t.config.VirtualHosts[i] = known
		}
	}
	if slices.Equal(t.config.VirtualHosts, other.VirtualHosts) && proto.Equal(t.config, other) {
		t.config = other
	}
}

// takeEqual is reuseEqual of a short list that need not be sorted.
func takeEqual[T proto.Message](list, sorted []T, name func(T) string) {
	for i, m := range list {
		if at, ok := find(sorted, name(m), name); ok && proto.Equal(sorted[at], m) {
			list[i] = sorted[at]
		}
	}
}
