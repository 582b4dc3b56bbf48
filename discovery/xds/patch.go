package xds

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
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
