package xds

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

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

// named is an element of a list to sort: its name, and its place in the list.
type named struct {
	name string
	at   int
}

// sortByName returns a list sorted by name, with the first of those that have one name.
//
// Names such as outbound|80|v1|a.default are mostly in order already among those of one port and subset, because the services
// are. So it sorts each of these runs by itself; one that is in order costs a comparison for each name.
func sortByName[T any](list []T, name func(T) string) []T {
	runs := map[string][]named{}
	for i, m := range list {
		n := name(m)
		run := n[:strings.LastIndexByte(n, '|')+1]
		runs[run] = append(runs[run], named{n, i})
	}
	order := make([]named, 0, len(list))
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		sortNamed(runs[run])
		order = append(order, runs[run]...)
	}
	sortNamed(order) // one run's names may lie between those of another
	out := make([]T, 0, len(list))
	for i, n := range order {
		if i == 0 || n.name != order[i-1].name {
			out = append(out, list[n.at])
		}
	}
	return out
}

// sortNamed sorts what is not sorted already.
func sortNamed(all []named) {
	before := func(i, j int) bool {
		return cmp.Or(strings.Compare(all[i].name, all[j].name), all[i].at-all[j].at) < 0
	}
	if !sort.SliceIsSorted(all, before) {
		sort.Slice(all, before)
	}
}

// pack encodes a message as an Any, always with the same bytes. It can fail only on text that is not UTF-8, and all
// text here was decoded from protobuf or JSON, whose decoders reject it.
func pack(m proto.Message) *anypb.Any {
	packed := &anypb.Any{}
	if err := anypb.MarshalFrom(packed, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("encode %T: %v", m, err))
	}
	return packed
}

// openable removes the listeners that a proxy cannot open, since Envoy would reject each of them in every update: those
// at a port below 1024 of an unprivileged proxy, and those at a port that the proxy uses itself. The model's notes
// report both.
func openable(listeners []*listenerv3.Listener, unprivileged bool, own model.OwnPorts) []*listenerv3.Listener {
	return slices.DeleteFunc(listeners, func(l *listenerv3.Listener) bool {
		at := l.GetAddress().GetSocketAddress()
		port := at.GetPortValue()
		if l.BindToPort == nil || l.BindToPort.Value {
			return port > 0 && unprivileged && port < model.UnprivilegedFrom || own.Taken(port) != ""
		}
		ip, err := netip.ParseAddr(at.GetAddress())
		return err == nil && ip.IsUnspecified() && own.Listener(port) != ""
	})
}

// ownPorts returns the ports of the proxy's bootstrap and of its agent, by Istio's metadata keys. Istio's agent always
// sends them.
func (p Proxy) ownPorts() model.OwnPorts {
	config := p.config()
	own := model.OwnPorts{
		Prometheus: portIn(p.Metadata.Extra["ENVOY_PROMETHEUS_PORT"]), Readiness: portIn(p.Metadata.Extra["ENVOY_STATUS_PORT"]),
		Status: portIn(config["statusPort"]), Admin: portIn(config["proxyAdminPort"]),
	}
	if p.text("DNS_CAPTURE") == "true" {
		own.DNS = dnsPort
	}
	return own
}

// portIn reads a port from metadata. A number may be a string; any other value gives 0.
func portIn(value any) uint32 {
	switch v := value.(type) {
	case float64:
		if v == float64(uint16(v)) {
			return uint32(v)
		}
	case string:
		if n, err := strconv.ParseUint(v, 10, 16); err == nil {
			return uint32(n)
		}
	}
	return 0
}
