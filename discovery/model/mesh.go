package model

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Mesh is one immutable generation of everything that discovery knows.
type Mesh struct {
	services         []*Service // by host
	byHost           map[string]*Service
	byAddress        map[netip.Addr][]*Service                      // that have an endpoint there
	virtualServices  map[string]*Config[*networking.VirtualService] // by host, fully qualified
	destinationRules map[string]*Config[*networking.DestinationRule]
	sidecars         []*Config[*networking.Sidecar] // oldest first
	objects          []*Object                      // all, oldest first
}

// New indexes groups. The order of the groups does not matter: of two services or rules for one host the older
// wins, then the one whose namespace and name come first.
func New(groups iter.Seq[Group]) *Mesh {
	m := &Mesh{
		byHost:           map[string]*Service{},
		virtualServices:  map[string]*Config[*networking.VirtualService]{},
		destinationRules: map[string]*Config[*networking.DestinationRule]{},
	}
	var objects []*Object
	for group := range groups {
		for _, s := range group.Services {
			m.addService(s)
		}
		objects = append(objects, group.Objects...)
	}
	m.services = slices.SortedFunc(maps.Values(m.byHost), func(a, b *Service) int { return cmp.Compare(a.Host, b.Host) })
	m.indexWorkloads()
	slices.SortFunc(objects, func(a, b *Object) int { return a.Older(b.Meta) })
	for _, o := range objects {
		m.addObject(o)
	}
	m.objects = objects
	return m
}

func (m *Mesh) addService(s *Service) {
	if old, ok := m.byHost[s.Host]; ok && cmp.Or(old.Created.Compare(s.Created), cmp.Compare(old.Namespace, s.Namespace)) <= 0 {
		return
	}
	m.byHost[s.Host] = s
}

// addObject is called oldest first, so the first claim to a host stays.
func (m *Mesh) addObject(o *Object) {
	switch spec := o.Spec.(type) {
	case *networking.VirtualService:
		rule := &Config[*networking.VirtualService]{o.Meta, qualifyVirtualService(spec, o.Namespace)}
		for _, host := range rule.Spec.Hosts {
			claim(m.virtualServices, host, rule)
		}
	case *networking.DestinationRule:
		rule := &Config[*networking.DestinationRule]{o.Meta, spec}
		claim(m.destinationRules, Qualify(spec.Host, o.Namespace), rule)
	case *networking.Sidecar:
		m.sidecars = append(m.sidecars, &Config[*networking.Sidecar]{o.Meta, spec})
	}
}

func claim[T any](owners map[string]T, host string, claimant T) {
	if _, taken := owners[host]; !taken {
		owners[host] = claimant
	}
}

// Objects returns every configuration object, oldest first.
func (m *Mesh) Objects() []*Object { return m.objects }

// Services returns every service, ordered by host.
func (m *Mesh) Services() []*Service { return m.services }

// Service returns the service of a fully qualified host, nil where there is none.
func (m *Mesh) Service(host string) *Service { return m.byHost[host] }

// VirtualService returns the rules for a host, nil where there are none.
func (m *Mesh) VirtualService(host string) *Config[*networking.VirtualService] {
	return m.virtualServices[host]
}

// DestinationRule returns the policy of a host, nil where there is none.
func (m *Mesh) DestinationRule(host string) *Config[*networking.DestinationRule] {
	return m.destinationRules[host]
}

// Sidecar returns the Sidecar that applies to a workload: the oldest of its namespace whose selector matches its
// labels, else the oldest of its namespace without a selector, else nil.
func (m *Mesh) Sidecar(namespace string, labels map[string]string) *Config[*networking.Sidecar] {
	var fallback *Config[*networking.Sidecar]
	for _, s := range m.sidecars {
		selector := s.Spec.GetWorkloadSelector().GetLabels()
		switch {
		case s.Namespace != namespace:
		case len(selector) == 0 && fallback == nil:
			fallback = s
		case len(selector) > 0 && Selects(selector, labels):
			return s
		}
	}
	return fallback
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
