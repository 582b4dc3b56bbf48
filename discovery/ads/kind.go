package ads

import (
	"google.golang.org/protobuf/proto"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// kind is a type of resource. The order is the one that responses are sent in.
type kind int

const (
	cds kind = iota
	eds
	lds
	rds
	kinds
)

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

func (k kind) typeURL() string {
	return [kinds]string{cds: clusterType, eds: endpointType, lds: listenerType, rds: routeType}[k]
}

func kindOf(typeURL string) (kind, bool) {
	for k := range kinds {
		if k.typeURL() == typeURL {
			return k, true
		}
	}
	return 0, false
}

// whole reports whether a response carries everything there is, so that absence deletes. Of the other kinds it carries
// what changed, and deletion follows from the listener or cluster that named it.
func (k kind) whole() bool { return k == cds || k == lds }

// empty returns the answer to a name of which nothing is known: without one, Envoy would wait.
func (k kind) empty(name string) *resource {
	if k == eds {
		return encode(name, &endpointv3.ClusterLoadAssignment{ClusterName: name})
	}
	return encode(name, &routev3.RouteConfiguration{Name: name})
}

func encodeAll[T proto.Message](list []T, name func(T) string) *set {
	resources := make([]*resource, 0, len(list))
	for _, m := range list {
		resources = append(resources, encode(name(m), m))
	}
	return newSet(resources)
}

func encodeClusters(list []*clusterv3.Cluster) *set {
	return encodeAll(list, (*clusterv3.Cluster).GetName)
}

func encodeEndpoints(list []*endpointv3.ClusterLoadAssignment) *set {
	return encodeAll(list, (*endpointv3.ClusterLoadAssignment).GetClusterName)
}

func encodeListeners(list []*listenerv3.Listener) *set {
	return encodeAll(list, (*listenerv3.Listener).GetName)
}

func encodeRoutes(list []*routev3.RouteConfiguration) *set {
	return encodeAll(list, (*routev3.RouteConfiguration).GetName)
}
