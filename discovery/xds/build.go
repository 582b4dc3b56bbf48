package xds

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Resources is an Envoy configuration. Each list is sorted by name, without duplicate names. It is read-only: several
// proxies share it.
type Resources struct {
	Clusters  []*clusterv3.Cluster
	Endpoints []*endpointv3.ClusterLoadAssignment
	Listeners []*listenerv3.Listener
	Routes    []*routev3.RouteConfiguration

	// Values that the next generation may reuse.
	memory     *model.Memory
	passes     bool // a gateway's server has AUTO_PASSTHROUGH, so its clusters also exist under their server names
	tables     []*routeTable
	clustered  clustered
	listened   listened
	made       made
	scope      *model.Scope
	generation *model.Generation

	since   *model.Generation // generation of the resources from which patch made these; nil if they were built
	patched Patch
}

func build(last, sibling *Resources, m *model.Mesh, v Outbound) *Resources {
	b := newBuilder(last, sibling, m, v)
	b.serviceClusters()
	b.ownClusters()
	return b.finish()
}

func newBuilder(last, sibling *Resources, m *model.Mesh, v Outbound) *builder {
	b := &builder{
		mesh: m, view: v, last: last, sibling: sibling, out: &Resources{memory: model.NewMemory(last.memoryOf(), sibling.memoryOf())},
		scope: m.Scope(v.Namespace, v.Labels()), seen: observe(m.Settings(), tracerOf(m, v.Namespace), bySource.reports(v.Reports)),
	}
	b.seen.http10, b.seen.marks = v.HTTP10, v.Identity.Certified
	return b
}

// finish adds listeners and routes to the clusters.
func (b *builder) finish() *Resources {
	m, v := b.mesh, b.view
	switch {
	case v.Gateway:
		b.gateways()
		policies := m.Policies(v.Namespace, v.Labels())
		at := authz.Proxy{Gateway: true, Authorizers: authorizersOf(m, v.Namespace, policies)}
		policyFiltersOf(policies, m.Settings(), at).protect(b.out.Listeners)
	default:
		b.listeners()
	}
	b.out.memory.Forget()
	b.out.scope, b.out.generation = b.scope, m.Delta().ID
	b.out.Listeners = append(openable(b.out.Listeners, v.Unprivileged, v.Own), b.dns()...)
	return b.out.normalize()
}

// BuildInbound returns the resources for traffic to the proxy's own workload.
func BuildInbound(m *model.Mesh, v Inbound) *Resources { return InboundOf(m, v).Build() }

// builder collects the resources of one outbound view.
type builder struct {
	mesh    *model.Mesh
	view    Outbound
	scope   *model.Scope
	seen    observed
	last    *Resources
	sibling *Resources       // of another view, nil if there is none
	known   []*keptListeners // of last and of sibling, if they have the same ground
	out     *Resources

	gatewayRules map[string]gatewayRules // by namespace/name, see rulesOf
}

// ownClusters adds the clusters that are of no service.
func (b *builder) ownClusters() {
	b.out.Clusters = append(b.out.Clusters, blackHole())
	if !b.view.Gateway {
		b.out.Clusters = append(b.out.Clusters, passthrough(b.view))
	}
}

// add adds clusters and their endpoints.
func (r *Resources) add(made *Resources) {
	r.Clusters = append(r.Clusters, made.Clusters...)
	r.Endpoints = append(r.Endpoints, made.Endpoints...)
}

func (r *Resources) memoryOf() *model.Memory {
	if r == nil {
		return nil
	}
	return r.memory
}

// normalize sorts by name. If two resources have one name, which Envoy would reject, the first is kept.
func (r *Resources) normalize() *Resources {
	r.Clusters = sortByName(r.Clusters, (*clusterv3.Cluster).GetName)
	r.Endpoints = sortByName(r.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
	r.Listeners = sortByName(r.Listeners, (*listenerv3.Listener).GetName)
	r.Routes = sortByName(r.Routes, (*routev3.RouteConfiguration).GetName)
	return r
}
