package model

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Mesh is one immutable generation of everything that discovery knows.
type Mesh struct {
	services         []*Service // by host, then by right; of a host at most one of each namespace
	virtualServices  []*Config[*networking.VirtualService]
	destinationRules map[string]*byHost[[]*Config[*networking.DestinationRule]] // by namespace and host, oldest first
	gateways         []*Config[*networking.Gateway]
	sidecars         []*Config[*networking.Sidecar]
	workloads        map[string][]*Object // WorkloadEntry objects by namespace
	labels           labels
	byAddress        map[netip.Addr][]*Service // that have an endpoint there
	moved            map[serviceKey]*Service   // whose endpoints byAddress does not know
	contested        map[serviceKey]bool       // that more than one claims
	objects          []*Object                 // all, oldest first
	twins            map[string]bool           // keys that more than one has
	settings         Settings
	notes            []Note
	delta            Delta
	memory           *Memory
}

// New indexes groups. The order of the groups does not matter: of two services or rules for one host the older
// wins, then the one whose namespace and name come first.
func New(groups iter.Seq[Group]) *Mesh { return (*Mesh)(nil).Next(groups) }

// Next indexes groups as New does. What is made of the same objects as in m is the same, pointer for pointer, so that
// whoever translates a Mesh knows what did not change.
func (m *Mesh) Next(groups iter.Seq[Group]) *Mesh {
	next := &Mesh{
		destinationRules: map[string]*byHost[[]*Config[*networking.DestinationRule]]{},
		workloads:        map[string][]*Object{},
		contested:        map[serviceKey]bool{},
		twins:            map[string]bool{},
		memory:           NewMemory(nil),
	}
	if m != nil {
		next.memory = NewMemory(m.memory)
	}
	var objects []*Object
	var services []*Service
	for group := range groups {
		services = append(services, group.Services...)
		objects = append(objects, group.Objects...)
	}
	slices.SortStableFunc(objects, func(a, b *Object) int { return a.Older(b.Meta) })
	known := make(map[string]bool, len(objects))
	for _, o := range objects {
		if known[o.Key()] {
			next.twins[o.Key()] = true
		}
		known[o.Key()] = true
	}
	var rules []*Object
	for _, o := range objects {
		if _, ok := o.Spec.(*networking.VirtualService); ok {
			rules = append(rules, o)
			continue
		}
		next.addObject(o)
	}
	next.objects = objects
	next.addServices(services)
	next.indexWorkloads()
	next.delta.ID = new(Generation)
	next.addVirtualServices(rules)
	next.settings.fill()
	next.indexLabels()
	next.judge()
	next.memory.Forget()
	return next
}

// addServices orders services by their right to their host: the older, then the namespace that comes first.
func (m *Mesh) addServices(services []*Service) {
	for i, s := range services {
		if len(s.Selector) > 0 {
			services[i] = m.withWorkloads(s)
		}
	}
	slices.SortStableFunc(services, func(a, b *Service) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace))
	})
	for i, s := range services {
		again := false
		for j := len(m.services) - 1; i > 0 && j >= 0 && m.services[j].Host == s.Host; j-- {
			again = again || m.services[j].Namespace == s.Namespace
		}
		if again {
			m.contested[s.key()] = true
		} else {
			m.services = append(m.services, s)
		}
	}
}

// claims returns the services of a host, the oldest right first.
func (m *Mesh) claims(host string) []*Service {
	from, _ := slices.BinarySearchFunc(m.services, host,
		func(s *Service, host string) int { return cmp.Compare(s.Host, host) })
	to := from
	for to < len(m.services) && m.services[to].Host == host {
		to++
	}
	return m.services[from:to]
}

// addObject is called oldest first, so the first claim to a host stays.
func (m *Mesh) addObject(o *Object) {
	switch spec := o.Spec.(type) {
	case *networking.DestinationRule:
		hosts := m.destinationRules[o.Namespace]
		if hosts == nil {
			hosts = &byHost[[]*Config[*networking.DestinationRule]]{}
			m.destinationRules[o.Namespace] = hosts
		}
		host := Qualify(spec.Host, o.Namespace)
		hosts.set(host, append(hosts.values[host], &Config[*networking.DestinationRule]{o.Meta, spec}))
	case *networking.Sidecar:
		m.sidecars = append(m.sidecars, &Config[*networking.Sidecar]{o.Meta, spec})
	case *networking.Gateway:
		m.gateways = append(m.gateways, &Config[*networking.Gateway]{o.Meta, spec})
	case *networking.WorkloadEntry:
		m.workloads[o.Namespace] = append(m.workloads[o.Namespace], o)
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

// withWorkloads returns s with the WorkloadEntry objects that it selects as further endpoints.
func (m *Mesh) withWorkloads(s *Service) *Service {
	inputs := []any{s}
	for _, o := range m.workloads[s.Namespace] {
		labels := WorkloadLabels(o)
		if Selects(s.Selector, labels) {
			inputs = append(inputs, o)
		}
	}
	return Recall(m.memory, fmt.Sprintf("workloads of %s/%s", s.Namespace, s.Host), inputs, func() *Service {
		all := *s
		all.Endpoints = slices.Clone(s.Endpoints)
		for _, o := range inputs[1:] {
			o := o.(*Object)
			all.Endpoints = append(all.Endpoints, EndpointOf(o.Spec.(*networking.WorkloadEntry), WorkloadLabels(o)))
		}
		return &all
	})
}

// WorkloadLabels returns the labels of a WorkloadEntry: its spec's, and those of its metadata that the spec does not set.
func WorkloadLabels(o *Object) map[string]string {
	labels := maps.Clone(o.Labels)
	own := o.Spec.(*networking.WorkloadEntry).Labels
	if labels == nil {
		return own
	}
	maps.Copy(labels, own)
	return labels
}

// EndpointOf reads an endpoint as ServiceEntry and WorkloadEntry write it.
func EndpointOf(e *networking.WorkloadEntry, labels map[string]string) Endpoint {
	return Endpoint{
		Address: e.Address, Ports: e.Ports, Labels: labels, Weight: e.Weight, Locality: ParseLocality(e.Locality),
		Network: e.Network,
	}
}

// Objects returns every configuration object, oldest first.
func (m *Mesh) Objects() []*Object { return m.objects }

// Services returns every service, ordered by host. Of a host there may be one in each of several namespaces.
func (m *Mesh) Services() []*Service { return m.services }

// Service returns the service with the oldest right to a fully qualified host, nil where there is none.
func (m *Mesh) Service(host string) *Service {
	if claims := m.claims(host); len(claims) > 0 {
		return claims[0]
	}
	return nil
}

// Settings returns what holds for the whole mesh.
func (m *Mesh) Settings() Settings { return m.settings }

// Notes returns what is to be said of objects that ask for what is not there, ordered as the objects are.
func (m *Mesh) Notes() []Note { return m.notes }

// Sidecar returns the Sidecar that applies to a workload: the oldest of its namespace whose selector matches its
// labels, else the oldest of its namespace without a selector, else that of the root namespace, else nil.
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

// Gateways returns the gateways that a workload with these labels serves, oldest first. A selector without labels is
// every gateway workload's.
func (m *Mesh) Gateways(labels map[string]string) []*Config[*networking.Gateway] {
	var out []*Config[*networking.Gateway]
	for _, g := range m.gateways {
		if Selects(g.Spec.Selector, labels) {
			out = append(out, g)
		}
	}
	return out
}

// Selects reports whether labels hold every pair of selector.
func Selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
