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

	// What the next generation may take over.
	memory     *model.Memory
	tables     []*routeTable
	scope      *model.Scope
	generation *model.Generation
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
func BuildOutbound(m *model.Mesh, v Outbound) *Resources { return RebuildOutbound(nil, m, v) }

// RebuildOutbound returns what BuildOutbound does. What is as it was in last, built for the same view of an earlier
// mesh, is the same message: whoever encodes it need not look at the others. last may be nil.
func RebuildOutbound(last *Resources, m *model.Mesh, v Outbound) *Resources {
	if v.Proxyless {
		return buildProxyless(m, v)
	}
	if patched := last.patch(m, v); patched != nil {
		return patched
	}
	b := &builder{mesh: m, view: v, last: last, out: &Resources{memory: model.NewMemory(last.memoryOf())}}
	b.scope = m.Scope(v.Namespace, v.Labels())
	b.seen = observe(m, v.Namespace)
	b.clusters()
	switch {
	case v.Gateway:
		b.gateways()
	default:
		b.listeners()
	}
	b.out.memory.Forget()
	b.out.scope, b.out.generation = b.scope, m.Delta().ID
	return b.out.normalize().reuse(last)
}

// BuildInbound returns what leads to the proxy's own workload.
func BuildInbound(m *model.Mesh, v Inbound) *Resources { return RebuildInbound(nil, m, v) }

// RebuildInbound is to BuildInbound what RebuildOutbound is to BuildOutbound.
func RebuildInbound(last *Resources, m *model.Mesh, v Inbound) *Resources {
	r := &Resources{}
	if !v.Gateway {
		buildInbound(r, m, v)
	}
	return r.normalize().reuse(last)
}

// InboundInputs returns what BuildInbound reads of a mesh for v: as long as those are the same, so is what it returns.
func InboundInputs(m *model.Mesh, v Inbound) []any {
	inputs := []any{m.Settings(), observe(m, v.Namespace).tracing != nil}
	if s := m.Sidecar(v.Namespace, v.Labels()); s != nil {
		inputs = append(inputs, s.Spec)
	}
	for _, s := range m.ServicesAt(v.addresses()...) {
		inputs = append(inputs, s)
	}
	return inputs
}

// builder collects what one outbound view is told.
type builder struct {
	mesh  *model.Mesh
	view  Outbound
	scope *model.Scope
	seen  observed
	last  *Resources
	out   *Resources
}

// clusters adds those of every service that the proxy may be led to.
func (b *builder) clusters() {
	for _, s := range b.scope.Services() {
		rule := b.scope.DestinationRule(s)
		settings := b.mesh.Settings()
		made := model.Recall(b.out.memory, "cluster "+s.Host, []any{s, rule, settings}, func() *Resources {
			return serviceClusters(s, rule, b.view, settings)
		})
		b.out.Clusters = append(b.out.Clusters, made.Clusters...)
		b.out.Endpoints = append(b.out.Endpoints, made.Endpoints...)
	}
	b.out.Clusters = append(b.out.Clusters, blackHole())
	if !b.view.Gateway {
		b.out.Clusters = append(b.out.Clusters, passthrough(b.view))
	}
}

func (r *Resources) memoryOf() *model.Memory {
	if r == nil {
		return nil
	}
	return r.memory
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
