package xds

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
)

// reuse replaces each message that is equal to one of last by that one.
func (r *Resources) reuse(last *Resources) *Resources {
	if last == nil {
		return r
	}
	reuseEqual(r.Clusters, last.Clusters, (*clusterv3.Cluster).GetName)
	reuseEqual(r.Endpoints, last.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
	reuseEqual(r.Listeners, last.Listeners, (*listenerv3.Listener).GetName)
	reuseEqual(r.Routes, last.Routes, (*routev3.RouteConfiguration).GetName)
	return r
}

// reuseEqual iterates over two lists that are sorted by name. A message that is already the same pointer costs one
// comparison.
func reuseEqual[T interface {
	comparable
	proto.Message
}](list, last []T, name func(T) string,
) {
	i := 0
	for j, m := range list {
		if i < len(last) && last[i] == m {
			i++
			continue
		}
		for i < len(last) && strings.Compare(name(last[i]), name(m)) < 0 {
			i++
		}
		if i < len(last) && name(last[i]) == name(m) {
			if proto.Equal(last[i], m) {
				list[j] = last[i]
			}
			i++
		}
	}
}
