package xds

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// RebuildWithSibling returns the resources for traffic to the mesh's services: all endpoints and routes, since inbound has
// none. A message that is unchanged since last, which was built for the same view of an earlier mesh, is the same pointer:
// only the other messages must be encoded. So is one that is equal to one of sibling, which was built for another view of the
// same mesh: views that differ little cost little. last and sibling may be nil.
func RebuildWithSibling(last, sibling *Resources, m *model.Mesh, v Outbound) *Resources {
	if v.Proxyless {
		return buildProxyless(m, v).reuse(sibling)
	}
	if patched := last.patch(m, v); patched != nil {
		patched.reusePatched(sibling)
		return patched
	}
	return build(last, sibling, m, v).reuse(last).reuse(sibling)
}

// reusePatched reuses messages of sibling in the place of equal ones that patch made.
func (r *Resources) reusePatched(sibling *Resources) {
	if sibling != nil {
		reuseAt(r.Clusters, r.patched.Clusters, sibling.Clusters, (*clusterv3.Cluster).GetName)
		reuseAt(r.Endpoints, r.patched.Endpoints, sibling.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
	}
}

func reuseAt[T proto.Message](list []T, places []int, sibling []T, name func(T) string) {
	for _, at := range places {
		if i, found := find(sibling, name(list[at]), name); found && proto.Equal(sibling[i], list[at]) {
			list[at] = sibling[i]
		}
	}
}

// reuseEqualOf replaces new messages of a service, which no other view uses yet, by equal ones of sibling.
func (made *Resources) reuseEqualOf(sibling *Resources) {
	if sibling == nil {
		return
	}
	reuseEqualUnsorted(made.Clusters, sibling.Clusters, (*clusterv3.Cluster).GetName)
	reuseEqualUnsorted(made.Endpoints, sibling.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
}

// reuseEqualOf does the same for virtual hosts, and for the whole route configuration.
func (t *routeTable) reuseEqualOf(sibling *Resources) {
	if sibling == nil {
		return
	}
	i, ok := find(sibling.Routes, t.config.Name, (*routev3.RouteConfiguration).GetName)
	if !ok {
		return
	}
	other := sibling.Routes[i]
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

// reuseEqualUnsorted does the same as reuseEqual for a short list that need not be sorted.
func reuseEqualUnsorted[T proto.Message](list, sorted []T, name func(T) string) {
	for i, m := range list {
		if at, ok := find(sorted, name(m), name); ok && proto.Equal(sorted[at], m) {
			list[i] = sorted[at]
		}
	}
}
