package xds

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Patch lists the messages of some Resources that differ from those of the Resources from which they were made, by
// their indexes in the lists. The indexes are the same in both. Listeners are the same.
type Patch struct{ Clusters, Endpoints, Routes []int }

// PatchOf returns the difference between r and last. It returns false if r was not made from last by replacing
// messages.
func (r *Resources) PatchOf(last *Resources) (Patch, bool) {
	if r == last {
		return Patch{}, true
	}
	return r.patched, last != nil && last.generation != nil && r.since == last.generation
}

// patch returns r with the changes since its generation, if only endpoints and HTTP routes changed, and nil if more may
// have changed. A gateway's rules are used in several places; the endpoints of a headless service are addresses of listeners
// and of DNS names, and the first endpoint of a service whose host was resolved changes its cluster: for these, resources are built again.
func (r *Resources) patch(m *model.Mesh, v Outbound) *Resources {
	delta := m.Delta()
	if r == nil || v.Gateway && len(delta.Rules) > 0 || r.generation == nil || delta.Since != r.generation ||
		slices.ContainsFunc(delta.Services, func(s *model.Service) bool {
			return s.Headless || v.explicit() && s.Resolution == model.ResolutionNone
		}) {
		return nil
	}
	scope, ok := r.scope.With(delta.Rules)
	if !ok {
		return nil
	}
	out := *r
	out.scope, out.generation, out.since, out.patched = scope, delta.ID, r.generation, Patch{}
	if len(delta.Services) > 0 {
		out.patchServices(delta.Services, v, m)
	}
	if len(delta.Rules) > 0 && !out.patchRules(delta.Rules) {
		return nil
	}
	return &out
}

func (r *Resources) patchServices(services []*model.Service, v Outbound, m *model.Mesh) {
	for _, s := range services {
		seen := r.scope.Service(s.Host)
		if seen == nil || seen.Namespace != s.Namespace {
			continue // this proxy uses another service of the host, or none
		}
		in := inputsOf(m, s, r.scope.DestinationRule(s), &v, v.sameIn(m, s))
		made := in.clusters()
		if r.passes {
			made.add(in.sniClusters())
		}
		r.Clusters = replace(r.Clusters, &r.patched.Clusters, made.Clusters, (*clusterv3.Cluster).GetName)
		r.Endpoints = replace(r.Endpoints, &r.patched.Endpoints, made.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName)
	}
}

// patchRules rebuilds the virtual hosts of changed rules. It returns false if a virtual host is added or removed.
func (r *Resources) patchRules(changes []model.RuleChange) bool {
	r.tables = slices.Clone(r.tables)
	for i, t := range r.tables {
		patched, ok := t.patch(changes, r.scope)
		if !ok {
			return false
		}
		r.tables[i] = patched
		if patched.config != t.config {
			at, _ := find(r.Routes, patched.config.Name, (*routev3.RouteConfiguration).GetName)
			r.Routes = put(r.Routes, &r.patched.Routes, at, patched.config)
		}
	}
	return true
}

// patch returns t with the virtual hosts of changed rules rebuilt. If a rebuilt virtual host is equal to the old one,
// the route configuration stays the same pointer.
func (t *routeTable) patch(changes []model.RuleChange, scope *model.Scope) (*routeTable, bool) {
	changed := func(h routedHost) int {
		return slices.IndexFunc(changes, func(c model.RuleChange) bool { return c.From == h.rule })
	}
	if slices.ContainsFunc(t.absent, func(h routedHost) bool { return changed(h) >= 0 }) {
		return nil, false
	}
	out := *t
	for i, h := range t.hosts {
		at := changed(h)
		if at < 0 {
			continue
		}
		h.rule, h.asked = changes[at].To, nil
		routes := h.routes(scope)
		if h.service == nil && len(routes) == 0 {
			return nil, false
		}
		out.set(t, i, h, routes)
	}
	return &out, true
}

// set replaces a virtual host of t. The lists that t still shares with last are copied before the change.
func (t *routeTable) set(last *routeTable, i int, h routedHost, routes []*routev3.Route) {
	if &t.hosts[0] == &last.hosts[0] {
		t.hosts = slices.Clone(last.hosts)
	}
	t.hosts[i] = h
	was := last.config.VirtualHosts[i]
	host := virtualHost(was.Name, was.Domains, routes...)
	if proto.Equal(was, host) {
		return
	}
	if t.config == last.config {
		t.config = newRouteConfig(last.config.Name)
		t.config.IgnorePortInHostMatching = last.config.IgnorePortInHostMatching
		t.config.VirtualHosts = slices.Clone(last.config.VirtualHosts)
	}
	t.config.VirtualHosts[i] = host
}

// replace replaces messages in a sorted list by those of the same name, unless they are equal.
func replace[T proto.Message](list []T, places *[]int, messages []T, name func(T) string) []T {
	for _, m := range messages {
		if i, found := find(list, name(m), name); found && !proto.Equal(list[i], m) {
			list = put(list, places, i, m)
		}
	}
	return list
}

// put sets the message at an index and records the index. Before the first change it copies the list, since other
// Resources share it.
func put[T any](list []T, places *[]int, at int, m T) []T {
	if len(*places) == 0 {
		list = slices.Clone(list)
	}
	list[at] = m
	*places = append(*places, at)
	return list
}

// find returns the index of a name in a list that is sorted by name.
func find[T any](list []T, wanted string, name func(T) string) (int, bool) {
	return slices.BinarySearchFunc(list, wanted, func(m T, n string) int { return strings.Compare(name(m), n) })
}

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

// made counts what a build made anew, because an input had changed or there was nothing to reuse.
type made struct{ clusters, hosts, listeners int } // clusters: services whose clusters were made; hosts: virtual hosts

// clustered holds the clusters of each service with their inputs, by the service's host.
type clustered struct {
	view     *Outbound // with the fields that clusters depend on
	services []*serviceClusters
}

// serviceClusters holds the clusters and endpoints of one service. Views with the same inputs share it.
type serviceClusters struct {
	inputs clusterInputs
	made   *Resources
}

// serviceClusters adds the clusters of each service: those of last or of sibling where the inputs are the same. All lists are
// sorted by host.
func (b *builder) serviceClusters() {
	view := b.view.ofClusters()
	last, sibling := clusteredOf(b.last), clusteredOf(b.sibling)
	b.out.clustered.view = &view
	for _, known := range []*Outbound{sibling.view, last.view} {
		if known != nil && *known == view {
			b.out.clustered.view = known // so that a comparison of inputs is one of pointers
		}
	}
	services := b.scope.Services()
	b.out.clustered.services = make([]*serviceClusters, 0, len(services))
	for _, s := range services {
		in := inputsOf(b.mesh, s, b.scope.DestinationRule(s), b.out.clustered.view, b.view.sameIn(b.mesh, s))
		known := last.next(in)
		if known == nil {
			known = sibling.next(in)
		}
		if known == nil {
			b.out.made.clusters++
			known = &serviceClusters{in, in.clusters()}
			known.made.reuseEqualOf(b.last)
			known.made.reuseEqualOf(b.sibling)
		}
		b.out.clustered.services = append(b.out.clustered.services, known)
		b.out.add(known.made)
	}
}

func clusteredOf(r *Resources) clustered {
	if r == nil {
		return clustered{}
	}
	return r.clustered
}

// next returns the clusters that were made of the same inputs, nil if there are none. It drops the services before this one
// from the list.
func (c *clustered) next(in clusterInputs) *serviceClusters {
	for len(c.services) > 0 && c.services[0].inputs.service.Host < in.service.Host {
		c.services = c.services[1:]
	}
	if len(c.services) > 0 && c.services[0].inputs.Same(in) {
		return c.services[0]
	}
	return nil
}
