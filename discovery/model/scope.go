package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Scope is the part of the mesh that one workload sees: everything that is exported to its namespace, without the hosts
// that its Sidecar does not import.
type Scope struct {
	Namespace string
	Labels    map[string]string

	mesh     *Mesh
	egress   []Egress
	outbound OutboundPolicy
	services []*Service
	byHost   map[string]*Service
	narrowed bool // a Sidecar hides some services; those that rules lead to are added again

	dependencies *Dependencies // records the answers of the scope (see Memory)
	source       *Scope        // the scope that a recording scope reads
}

// Egress contains the services and rules that a workload reaches through one egress listener of its Sidecar.
type Egress struct {
	Listener *networking.IstioEgressListener // as declared by the Sidecar; nil without one
	Services []*Service                      // by host
	Rules    Rules
}

// OutboundPolicy defines the handling of requests to destinations that are unknown to a workload.
type OutboundPolicy struct {
	RegistryOnly bool                    // they are rejected
	Proxy        *networking.Destination // the destination that receives them; nil for their original one
}

// Scope returns what a workload of namespace with labels sees.
func (m *Mesh) Scope(namespace string, labels map[string]string) *Scope {
	s := &Scope{
		Namespace: namespace, Labels: labels, outbound: OutboundPolicy{RegistryOnly: m.settings.RegistryOnly()}, mesh: m,
		byHost: map[string]*Service{},
	}
	all := m.visibleServices(namespace)
	visible := oneOfEach(all, namespace)
	rules := m.rulesFor(MeshGateway, namespace)
	sidecar := m.Sidecar(namespace, labels)
	if sidecar != nil && sidecar.Spec.OutboundTrafficPolicy != nil {
		policy := sidecar.Spec.OutboundTrafficPolicy
		s.outbound.RegistryOnly = policy.Mode == networking.OutboundTrafficPolicy_REGISTRY_ONLY
		if policy.EgressProxy != nil {
			s.outbound.Proxy = &networking.Destination{
				Host: m.settings.Domain.Qualify(policy.EgressProxy.Host, sidecar.Namespace), Subset: policy.EgressProxy.Subset,
				Port: policy.EgressProxy.Port,
			}
		}
	}
	if sidecar == nil || len(sidecar.Spec.Egress) == 0 {
		s.egress = []Egress{{Services: visible, Rules: newRules(rules)}}
	} else {
		for _, l := range sidecar.Spec.Egress {
			s.egress = append(s.egress, m.narrow(l, sidecar.Namespace, namespace, all, rules))
		}
	}
	s.collect(visible)
	return s
}

// visibleServices returns the services that a namespace sees, by host; there may be several of one host.
func (m *Mesh) visibleServices(namespace string) []*Service {
	out := make([]*Service, 0, len(m.services))
	for _, s := range m.services {
		if m.serviceVisible(s, namespace) {
			out = append(out, s)
		}
	}
	return out
}

// oneOfEach returns one service for each host: if there are several, the namespace's own, else the first.
func oneOfEach(services []*Service, namespace string) []*Service {
	out := make([]*Service, 0, len(services))
	for _, s := range services {
		if n := len(out); n == 0 || out[n-1].Host != s.Host {
			out = append(out, s)
		} else if s.Namespace == namespace {
			out[n-1] = s
		}
	}
	return out
}

// narrow returns the services and rules that one egress listener of a Sidecar imports by its "namespace/host" patterns.
func (m *Mesh) narrow(l *networking.IstioEgressListener, declared, own string, services []*Service,
	rules []*Config[*networking.VirtualService],
) Egress {
	imports := func(namespace string, matches func(pattern string) bool) bool {
		return slices.ContainsFunc(l.Hosts, func(entry string) bool {
			in, pattern, _ := strings.Cut(entry, "/")
			return (in == "*" || in == namespace || in == "." && namespace == own) &&
				matches(m.settings.Domain.Qualify(pattern, declared))
		})
	}
	e := Egress{Listener: l}
	for _, s := range services {
		if imports(s.Namespace, func(pattern string) bool { return HostMatches(pattern, s.Host) }) {
			e.Services = append(e.Services, s)
		}
	}
	e.Services = oneOfEach(e.Services, own)
	var kept []*Config[*networking.VirtualService]
	for _, r := range rules {
		if imports(r.Namespace, func(pattern string) bool {
			return slices.ContainsFunc(r.Spec.Hosts,
				func(host string) bool { return HostMatches(pattern, host) || HostMatches(host, pattern) })
		}) {
			kept = append(kept, r)
		}
	}
	e.Rules = newRules(kept)
	return e
}

// collect merges the services of all listeners, and adds those to which rules, the egress proxy, tracing and authorization lead.
func (s *Scope) collect(visible []*Service) {
	add := func(service *Service) {
		if _, known := s.byHost[service.Host]; !known {
			s.byHost[service.Host] = service
			s.services = append(s.services, service)
		}
	}
	for _, e := range s.egress {
		for _, service := range e.Services {
			add(service)
		}
	}
	if s.narrowed = len(s.services) < len(visible); s.narrowed {
		wanted := map[string]bool{}
		for _, e := range s.egress {
			for _, r := range e.Rules.All() {
				maps.Copy(wanted, targets(r))
			}
		}
		if s.outbound.Proxy != nil {
			wanted[s.outbound.Proxy.Host] = true
		}
		for host := range s.mesh.settings.asked() {
			wanted[host] = true
		}
		for _, service := range visible {
			if wanted[service.Host] && service.AliasOf != "" {
				wanted[service.AliasOf] = true
			}
		}
		for _, service := range visible {
			if wanted[service.Host] {
				add(service)
			}
		}
	}
	slices.SortFunc(s.services, func(a, b *Service) int { return cmp.Compare(a.Host, b.Host) })
	s.joinAliases()
}

// With returns the scope after changes of rules. It returns false if the changes may add or remove services of the
// scope.
func (s *Scope) With(changes []RuleChange) (*Scope, bool) {
	if len(changes) == 0 {
		return s, true
	}
	for _, c := range changes {
		if s.narrowed && !maps.Equal(targets(c.From), targets(c.To)) {
			return nil, false
		}
	}
	next := *s
	next.egress = slices.Clone(s.egress)
	for i := range next.egress {
		rules := next.egress[i].Rules.with(changes)
		if len(rules.moved) > maxMoved {
			return nil, false
		}
		next.egress[i].Rules = rules
	}
	return &next, true
}

// targets returns the hosts to which rules lead.
func targets(v *Config[*networking.VirtualService]) map[string]bool {
	out := map[string]bool{}
	for d := range Destinations(v.Spec) {
		out[d.Host] = true
	}
	return out
}

// chosen returns those rules of one host and namespace that are for the workload: first those that select it.
func (s *Scope) chosen(namespace string, all []*Config[*networking.DestinationRule]) []*Config[*networking.DestinationRule] {
	var selected, general []*Config[*networking.DestinationRule]
	for _, r := range all {
		selector := r.Spec.GetWorkloadSelector().GetMatchLabels()
		switch {
		case !s.mesh.policyVisible(r, s.Namespace):
		case len(selector) == 0:
			general = append(general, r)
		case namespace == s.Namespace && Selects(selector, s.Labels):
			selected = append(selected, r)
		}
	}
	return append(selected, general...)
}

func mergeRules(rules []*Config[*networking.DestinationRule]) *networking.DestinationRule {
	out := &networking.DestinationRule{Host: rules[0].Spec.Host}
	seen := map[string]bool{}
	for _, r := range rules {
		if out.TrafficPolicy == nil {
			out.TrafficPolicy = r.Spec.TrafficPolicy
		}
		for _, subset := range r.Spec.Subsets {
			if !seen[subset.Name] {
				seen[subset.Name] = true
				out.Subsets = append(out.Subsets, subset)
			}
		}
	}
	return out
}
