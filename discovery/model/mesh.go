package model

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
)

// Mesh is one immutable generation of the services, workloads and configuration objects of all sources.
type Mesh struct {
	services         []*Service // by host, then by right; for one host at most one in each namespace
	virtualServices  []*Config[*networking.VirtualService]
	destinationRules map[string]*byHost[[]*Config[*networking.DestinationRule]] // by namespace and host, oldest first
	gateways         []*Config[*networking.Gateway]
	sidecars         []*Config[*networking.Sidecar]
	peers            map[string]*Peers      // by namespace, for those that have a policy
	rootPeers        *Peers                 // of the other namespaces
	workloads        map[string][]*Workload // of all registries, by namespace
	residents        map[string]*Residents  // the same, as proxies look them up
	entries          map[*Object]*Workload  // of the WorkloadEntry objects
	selecting        map[string][]*Service  // services with a selector, by namespace
	declared         map[*networking.ServiceEntry]declaredServices
	redeclared       map[string]declaredServices // by object key: changed by With since the last full index
	labels           labels
	namespaces       namespaces
	clusters         map[string]bool               // in which services have other addresses than their owners give them
	byAddress        parts[netip.Addr, []*Service] // services with an endpoint at the address, without their endpoints
	bareServices     parts[serviceKey, bareService]
	contested        map[serviceKey]claimants // services with more than one declaration: all declarations, the owner first
	shut             map[string]shutGuest     // declarations of registries that are not served, for others have their hosts
	objects          []*Object                // all, oldest first
	twins            map[string]int           // keys that several objects have, with how many further ones
	unused           []twin                   // objects whose key an object in use has; in the order of objects
	policies         policies
	keySets          map[string]string     // by KeyURI
	keyAddresses     []KeyAddress          // those that policies name
	questions        map[string][]Question // of issuers, by the namespace of gateways
	settings         Settings
	delta            Delta
	given            given
	memory           *Memory
	takers           ranges                    // the addresses that ServiceEntries and routes of TCP have
	owners           []addressOwner            // the addresses among these that belong to services and Pods of registries; by address
	places           map[serviceKey]int        // of services without an address of their own, see AutoAddresses
	local            map[*Service]bool         // with an endpoint at an address that is local to the proxy, see Local
	departed         map[serviceKey][]Endpoint // of headless services that have no endpoint any more
	readsNodes       bool                      // some service's endpoints depend on the node that a proxy runs on
	readsLocalities  bool                      // some service's endpoints depend on the locality of a proxy

	// Lacks are the names of sources of which nothing is known yet: what a proxy has that is not here may be of them. It is set
	// before the mesh is used.
	Lacks []string

	// Forgone says that nothing is known of a source for which proxies no longer wait: what they lose may be of it. It is set as Lacks is.
	Forgone bool
}

// New indexes groups of a mesh whose services have the default domain: see NewIn.
func New(groups iter.Seq[Group]) *Mesh { return NewIn(DefaultDomain, groups) }

// NewIn indexes groups, and makes services from their ServiceEntry objects. The order of the groups does not matter. If
// two rules of the same visibility name one host, the older one is used, then the one whose namespace and name sort
// first; see rulesFor. For services see union.go.
func NewIn(d Domain, groups iter.Seq[Group]) *Mesh { return NewOf(Settings{Domain: d}, groups) }

// NewOf does the same, with the settings that are the same in every generation.
func NewOf(s Settings, groups iter.Seq[Group]) *Mesh {
	return (&Mesh{settings: s.constant()}).Next(groups)
}

// Next indexes groups as New does, in the domain of m. Values that are made from the same objects as in m are the same pointers, so that
// the translation of a Mesh can detect what did not change.
func (m *Mesh) Next(groups iter.Seq[Group]) *Mesh {
	if m == nil {
		m = &Mesh{}
	}
	next := &Mesh{
		destinationRules: map[string]*byHost[[]*Config[*networking.DestinationRule]]{},
		workloads:        map[string][]*Workload{},
		entries:          map[*Object]*Workload{},
		selecting:        map[string][]*Service{},
		declared:         map[*networking.ServiceEntry]declaredServices{},
		peers:            map[string]*Peers{},
		contested:        map[serviceKey]claimants{},
		policies:         policies{},
		memory:           NewMemory(m.memory, nil),
		settings:         m.settings.constant(),
	}
	var objects []*Object
	var services []*Service
	for group := range groups {
		services = append(services, group.Services...)
		for _, w := range group.Workloads {
			next.workloads[w.Namespace] = append(next.workloads[w.Namespace], w)
		}
		objects = append(objects, group.Objects...)
	}
	slices.SortStableFunc(objects, func(a, b *Object) int { return a.Older(b.Meta) })
	var rules []*Object
	next.readKeySets(objects)
	for _, o := range next.addObjects(objects) {
		switch spec := o.Spec.(type) {
		case *networking.VirtualService:
			rules = append(rules, o)
		case *networking.ServiceEntry:
			known, _ := m.declare(o, spec)
			next.declared[spec] = known
			services = append(services, known.services...)
		case *networking.WorkloadEntry:
			next.addEntry(m, o, spec)
		default:
			next.addObject(o)
		}
	}
	next.addServices(services)
	next.readsNodes = slices.ContainsFunc(next.services, (*Service).readsNode)
	next.places = m.placesOf(next.services)
	next.indexDeparted(m)
	next.indexClusters()
	next.indexBareServices(m)
	next.indexWorkloads()
	next.indexResidents(m)
	next.delta.ID = new(Generation)
	next.addVirtualServices(rules)
	next.settings.fill()
	next.indexGiven()
	next.indexDoors(m)
	next.indexOwners()
	next.indexPeers(m)
	next.indexLabels()
	next.indexLocalityReads()
	next.indexNamespaces()
	next.memory.Forget()
	return next
}

// addServices orders services by their right to their host, and joins the declarations of one host and namespace into
// one service: see union.go.
func (m *Mesh) addServices(services []*Service) {
	taken := m.taken(services)
	for i, s := range services {
		if len(s.Selector) > 0 {
			m.selecting[s.Namespace] = append(m.selecting[s.Namespace], s)
			services[i] = m.withWorkloads(s, taken[s])
		}
	}
	slices.SortStableFunc(services, (*Service).byRight)
	services = m.shutGuests(services)
	places := map[serviceKey]int{} // of services with more than one declaration
	for _, s := range services {
		at := len(m.services) - 1
		for at >= 0 && m.services[at].Host == s.Host && m.services[at].Namespace != s.Namespace {
			at--
		}
		if at < 0 || m.services[at].Host != s.Host {
			m.services = append(m.services, s)
			continue
		}
		if len(m.contested[s.key()]) == 0 {
			m.contested[s.key()], places[s.key()] = claimants{m.services[at]}, at
		}
		m.contested[s.key()] = append(m.contested[s.key()], s)
	}
	for key, at := range places {
		slices.SortStableFunc(m.contested[key], func(a, b *Service) int { return cmp.Compare(b.Right, a.Right) })
		m.services[at] = Recall(m.memory, fmt.Sprintf("claims of %s/%s", key.namespace, key.host), m.contested[key], claimants.join)
	}
	m.indexAliases()
}

// claims returns the services of a host in the order of their right to it.
func (m *Mesh) claims(host string) []*Service {
	from, _ := slices.BinarySearchFunc(m.services, host,
		func(s *Service, host string) int { return cmp.Compare(s.Host, host) })
	to := from
	for to < len(m.services) && m.services[to].Host == host {
		to++
	}
	return m.services[from:to]
}

// addObject is called for the oldest object first, so the first claim to a host is kept.
func (m *Mesh) addObject(o *Object) {
	switch spec := o.Spec.(type) {
	case *networking.DestinationRule:
		hosts := m.destinationRules[o.Namespace]
		if hosts == nil {
			hosts = &byHost[[]*Config[*networking.DestinationRule]]{}
			m.destinationRules[o.Namespace] = hosts
		}
		host := m.settings.Domain.Qualify(spec.Host, o.Namespace)
		hosts.set(host, append(hosts.values[host], &Config[*networking.DestinationRule]{o.Meta, spec}))
	case *networking.Sidecar:
		m.sidecars = append(m.sidecars, &Config[*networking.Sidecar]{o.Meta, spec})
	case *networking.HTTPRoute:
		m.addQuestion(o, spec)
	case *networking.Gateway:
		m.gateways = append(m.gateways, &Config[*networking.Gateway]{o.Meta, spec})
	case *security.AuthorizationPolicy:
		m.policies.add(o.Meta, Policy{Spec: spec})
	case *security.RequestAuthentication:
		m.policies.add(o.Meta, Policy{Tokens: m.withKeys(o, spec)})
	case *security.PeerAuthentication:
		m.addPeer(o, spec)
	case *meshconfig.MeshConfig:
		if m.settings.Config == nil {
			m.settings.Config = spec
		}
	case *meshconfig.MeshNetworks:
		if m.settings.Networks == nil {
			m.settings.Networks = spec
		}
	}
}

// Objects returns every configuration object, oldest first.
func (m *Mesh) Objects() []*Object { return m.objects }

// Services returns every service, ordered by host. Several namespaces may each have a service for the same host.
func (m *Mesh) Services() []*Service { return m.services }

// Service returns the service with the first right to a fully qualified host, or nil if there is none.
func (m *Mesh) Service(host string) *Service {
	if claims := m.claims(host); len(claims) > 0 {
		return claims[0]
	}
	return nil
}

// ReadsNodes reports whether the configuration of a proxy depends on the node that it runs on.
func (m *Mesh) ReadsNodes() bool { return m.readsNodes }

// Settings returns the settings of the whole mesh.
func (m *Mesh) Settings() Settings { return m.settings }

// Sidecar returns the Sidecar that applies to a workload: the oldest one of its namespace whose selector matches its
// labels, else the oldest one of its namespace without a selector, else that of the root namespace, else nil.
func (m *Mesh) Sidecar(namespace string, labels map[string]string) *Config[*networking.Sidecar] {
	var own, root *Config[*networking.Sidecar]
	for _, s := range m.sidecars {
		selector := s.Spec.GetWorkloadSelector().GetLabels()
		switch {
		case s.Namespace == namespace && len(selector) > 0 && Selects(selector, labels):
			return s
		case len(selector) > 0:
		case s.Namespace == namespace && own == nil:
			own = s
		case s.Namespace == m.settings.RootNamespace() && root == nil:
			root = s
		}
	}
	return cmp.Or(own, root)
}

// Selects reports whether labels contain every pair of selector.
func Selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
