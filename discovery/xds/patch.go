package xds

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// patch returns r with the endpoints that changed since, where nothing else did; nil where more may have. A gateway's
// clusters also exist under other names, so it is built anew.
func (r *Resources) patch(m *model.Mesh, v Outbound) *Resources {
	delta := m.Delta()
	if r == nil || v.Gateway || r.generation == nil || delta.Since != r.generation {
		return nil
	}
	out := *r
	out.Clusters, out.Endpoints = slices.Clone(r.Clusters), slices.Clone(r.Endpoints)
	out.generation = delta.ID
	for _, s := range delta.Services {
		seen := r.scope.Service(s.Host)
		if seen == nil || seen.Namespace != s.Namespace {
			continue // this proxy is told of another of that host, or of none
		}
		made := serviceClusters(s, r.scope.DestinationRule(s), v, m.Settings())
		replace(out.Clusters, made.Clusters, (*clusterv3.Cluster).GetName)
		replace(out.Endpoints, made.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
	}
	return &out
}

// replace puts messages in the place of those of the same name in a sorted list, unless they are equal.
func replace[T proto.Message](list, messages []T, name func(T) string) {
	for _, m := range messages {
		i, found := slices.BinarySearchFunc(list, name(m), func(o T, n string) int { return strings.Compare(name(o), n) })
		if found && !proto.Equal(list[i], m) {
			list[i] = m
		}
	}
}
