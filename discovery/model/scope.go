package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Scope is the mesh as one workload sees it: what is exported to its namespace, less what its Sidecar leaves out.
type Scope struct {
	Namespace    string
	Labels       map[string]string
	Egress       []Egress
	RegistryOnly bool                    // unknown destinations are refused
	EgressProxy  *networking.Destination // where unknown destinations are sent, nil for straight on

	mesh     *Mesh
	services []*Service
	byHost   map[string]*Service
	narrowed bool // by a Sidecar: of what it leaves out, rules lead to some
}

// Egress is what a workload reaches through one group of listeners.
type Egress struct {
	Listener *networking.IstioEgressListener // as the Sidecar declares it; nil without one
	Services []*Service                      // by host
	Rules    Rules
}

// Scope returns what a workload of namespace with labels sees.
func (m *Mesh) Scope(namespace string, labels map[string]string) *Scope {
	s := &Scope{
		Namespace: namespace, Labels: labels, RegistryOnly: m.settings.RegistryOnly(), mesh: m,
		byHost: map[string]*Service{},
	}
	visible := m.visibleServices(namespace)
	rules := m.rulesFor(MeshGateway, namespace)
	sidecar := m.Sidecar(namespace, labels)
	if sidecar != nil && sidecar.Spec.OutboundTrafficPolicy != nil {
		policy := sidecar.Spec.OutboundTrafficPolicy
		s.RegistryOnly = policy.Mode == networking.OutboundTrafficPolicy_REGISTRY_ONLY
		if policy.EgressProxy != nil {
			s.EgressProxy = &networking.Destination{
				Host: Qualify(policy.EgressProxy.Host, sidecar.Namespace), Subset: policy.EgressProxy.Subset,
				Port: policy.EgressProxy.Port,
			}
		}
	}
	if sidecar == nil || len(sidecar.Spec.Egress) == 0 {
		s.Egress = []Egress{{Services: visible, Rules: newRules(rules)}}
	} else {
		for _, l := range sidecar.Spec.Egress {
			s.Egress = append(s.Egress, narrow(l, sidecar.Namespace, namespace, visible, rules))
		}
	}
	s.collect(visible)
	return s
}

// visibleServices returns one service a host: of several the namespace's own, else the oldest.
func (m *Mesh) visibleServices(namespace string) []*Service {
	out := make([]*Service, 0, len(m.services))
	for _, s := range m.services {
		if !m.serviceVisible(s, namespace) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Host == s.Host {
			if s.Namespace == namespace {
				out[n-1] = s
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// narrow returns what one egress listener of a Sidecar imports, by "namespace/host" patterns.
func narrow(l *networking.IstioEgressListener, declared, own string, visible []*Service,
	rules []*Config[*networking.VirtualService],
) Egress {
	imports := func(namespace string, matches func(pattern string) bool) bool {
		return slices.ContainsFunc(l.Hosts, func(entry string) bool {
			in, pattern, _ := strings.Cut(entry, "/")
			return (in == "*" || in == namespace || in == "." && namespace == own) &&
				matches(Qualify(pattern, declared))
		})
	}
	e := Egress{Listener: l}
	for _, s := range visible {
		if imports(s.Namespace, func(pattern string) bool { return HostMatches(pattern, s.Host) }) {
			e.Services = append(e.Services, s)
		}
	}
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

// collect joins the services of all listeners, and those that their rules lead to.
func (s *Scope) collect(visible []*Service) {
	add := func(service *Service) {
		if _, known := s.byHost[service.Host]; !known {
			s.byHost[service.Host] = service
			s.services = append(s.services, service)
		}
	}
	for _, e := range s.Egress {
		for _, service := range e.Services {
			add(service)
		}
	}
	if s.narrowed = len(s.services) < len(visible); s.narrowed {
		wanted := map[string]bool{}
		for _, e := range s.Egress {
			for _, r := range e.Rules.All() {
				maps.Copy(wanted, targets(r))
			}
		}
		if s.EgressProxy != nil {
			wanted[s.EgressProxy.Host] = true
		}
		for host := range s.mesh.settings.collectors() {
			wanted[host] = true
		}
		for _, service := range visible {
			if wanted[service.Host] {
				add(service)
			}
		}
	}
	slices.SortFunc(s.services, func(a, b *Service) int { return cmp.Compare(a.Host, b.Host) })
}

// With returns the scope after changes of rules; false where these may show the workload other services.
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
	next.Egress = slices.Clone(s.Egress)
	for i := range next.Egress {
		rules := next.Egress[i].Rules.with(changes)
		if len(rules.moved) > maxMoved {
			return nil, false
		}
		next.Egress[i].Rules = rules
	}
	return &next, true
}

// targets are the hosts that rules lead to.
func targets(v *Config[*networking.VirtualService]) map[string]bool {
	out := map[string]bool{}
	for d := range Destinations(v.Spec) {
		out[d.Host] = true
	}
	return out
}

// Services returns every service that the workload may be led to, by host.
func (s *Scope) Services() []*Service { return s.services }

// Service returns the service of a host, nil where the workload sees none.
func (s *Scope) Service(host string) *Service { return s.byHost[host] }

// Settings returns what holds for the whole mesh.
func (s *Scope) Settings() Settings { return s.mesh.settings }

// DestinationRule returns the policy for a service: of the workload's own namespace, else of the service's, else of the
// root namespace; in each the one with the narrowest host, and of these the one that selects the workload. Several for
// one host are one: their subsets together, and the oldest's policy. Nil where there is none.
func (s *Scope) DestinationRule(service *Service) *networking.DestinationRule {
	for _, namespace := range []string{s.Namespace, service.Namespace, s.mesh.settings.RootNamespace()} {
		rules := s.mesh.destinationRules[namespace]
		if rules == nil {
			continue
		}
		for _, all := range rules.matching(service.Host) {
			if rule := s.merge(namespace, all); rule != nil {
				return rule
			}
		}
	}
	return nil
}

func (s *Scope) merge(namespace string, all []*Config[*networking.DestinationRule]) *networking.DestinationRule {
	var selected, general []*networking.DestinationRule
	for _, r := range all {
		selector := r.Spec.GetWorkloadSelector().GetMatchLabels()
		switch {
		case !s.mesh.policyVisible(r, s.Namespace):
		case len(selector) == 0:
			general = append(general, r.Spec)
		case namespace == s.Namespace && Selects(selector, s.Labels):
			selected = append(selected, r.Spec)
		}
	}
	rules := append(selected, general...)
	if len(rules) < 2 {
		if len(rules) == 0 {
			return nil
		}
		return rules[0]
	}
	return mergeRules(rules)
}

func mergeRules(rules []*networking.DestinationRule) *networking.DestinationRule {
	out := &networking.DestinationRule{Host: rules[0].Host}
	seen := map[string]bool{}
	for _, r := range rules {
		if out.TrafficPolicy == nil {
			out.TrafficPolicy = r.TrafficPolicy
		}
		for _, subset := range r.Subsets {
			if !seen[subset.Name] {
				seen[subset.Name] = true
				out.Subsets = append(out.Subsets, subset)
			}
		}
	}
	return out
}
