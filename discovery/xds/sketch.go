package xds

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Sketch is what a proxy is sent for traffic to the mesh's services, in which the clusters of a service are made when one of them is asked for:
// they are most of what a build costs, and one request needs few.
type Sketch struct {
	*Resources
	b *builder // nil if every cluster is made
}

// SketchOf returns the sketch for a view of a mesh.
func SketchOf(m *model.Mesh, v Outbound) Sketch {
	if v.Proxyless {
		return Sketch{buildProxyless(m, v), nil}
	}
	b := newBuilder(nil, nil, m, v)
	b.ownClusters()
	return Sketch{b.finish(), b}
}

// Cluster returns a cluster, and its endpoints if they are sent apart from it; nil if there is none. It is that of the whole build.
func (s Sketch) Cluster(name string) (*clusterv3.Cluster, *endpointv3.ClusterLoadAssignment) {
	if c, endpoints := s.Resources.Cluster(name); c != nil {
		return c, endpoints
	}
	service := serviceNamed(s.scope, name)
	if service == nil || s.b == nil {
		return nil, nil
	}
	view := s.b.view.ofClusters()
	made := inputsOf(s.b.mesh, service, s.scope.DestinationRule(service), &view, s.b.view.sameIn(s.b.mesh, service)).clusters()
	return made.normalize().Cluster(name)
}

// Cluster returns a cluster, and its endpoints if they are sent apart from it; nil if there is none.
func (r *Resources) Cluster(name string) (*clusterv3.Cluster, *endpointv3.ClusterLoadAssignment) {
	i, found := find(r.Clusters, name, (*clusterv3.Cluster).GetName)
	if !found {
		return nil, nil
	}
	c := r.Clusters[i]
	if of := c.GetEdsClusterConfig().GetServiceName(); of != "" {
		name = of
	}
	if k, found := find(r.Endpoints, name, (*endpointv3.ClusterLoadAssignment).GetClusterName); found && c.EdsClusterConfig != nil {
		return c, r.Endpoints[k]
	}
	return c, nil
}
