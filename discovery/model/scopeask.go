package model

import networking "istio.io/api/networking/v1alpha3"

// The questions of a scope. If the scope records its answers (see RecallScoped), services are returned without their
// endpoints.

// Service returns the service of a host, or nil if the workload sees none. The host may be one of its Aliases.
func (s *Scope) Service(host string) *Service {
	if s.dependencies != nil {
		return ask[*Service](s, serviceQuestion{host})
	}
	return s.byHost[host]
}

// ServicesOn returns the services of an egress that have a port, or all of them for port 0, by host.
func (s *Scope) ServicesOn(egress int, port uint32) []*Service {
	if s.dependencies != nil {
		return ask[[]*Service](s, servicesQuestion{egress, port})
	}
	if egress < 0 || egress >= len(s.egress) {
		return nil
	}
	var out []*Service
	for _, service := range s.egress[egress].Services {
		if _, ok := service.Port(port); ok || port == 0 {
			out = append(out, service)
		}
	}
	return out
}

// Rule returns the rules of a host in an egress, or nil if there are none.
func (s *Scope) Rule(egress int, host string) *Config[*networking.VirtualService] {
	if s.dependencies != nil {
		return ask[*Config[*networking.VirtualService]](s, ruleQuestion{egress, host})
	}
	return s.Rules(egress).For(host)
}

// Rules returns all rules of an egress.
func (s *Scope) Rules(egress int) Rules {
	if s.dependencies != nil {
		return ask[Rules](s, rulesQuestion{egress})
	}
	if egress < 0 || egress >= len(s.egress) {
		return Rules{}
	}
	return s.egress[egress].Rules
}

// OutboundPolicy returns the handling of requests to destinations that are unknown to the workload.
func (s *Scope) OutboundPolicy() OutboundPolicy {
	if s.dependencies != nil {
		return ask[OutboundPolicy](s, outboundQuestion{})
	}
	return s.outbound
}

// Settings returns the settings of the whole mesh.
func (s *Scope) Settings() Settings {
	if s.dependencies != nil {
		return ask[Settings](s, settingsQuestion{})
	}
	return s.mesh.settings
}

// DestinationRule returns the policy for a service: that of the workload's own namespace, else of the service's
// namespace, else of the root namespace. In each namespace, the narrowest matching host is used. Several rules for one
// host are merged: all their subsets, and the policy of the first one that has a policy, where rules that select the
// workload come before rules without a selector, and then the oldest. It returns nil if there is no policy.
func (s *Scope) DestinationRule(service *Service) *networking.DestinationRule {
	if s.dependencies != nil {
		return ask[*networking.DestinationRule](s, policyQuestion{service.Host, service.Namespace})
	}
	return s.policyFor(service.Host, service.Namespace)
}

func (s *Scope) policyFor(host, namespace string) *networking.DestinationRule {
	rules := s.policiesFor(host, namespace)
	if len(rules) == 0 {
		return nil
	}
	policy := rules[0].Spec
	if len(rules) > 1 {
		policy = mergeRules(rules)
	}
	if in := rules[0].Namespace; in != s.Namespace && in != s.mesh.settings.RootNamespace() {
		return lent(policy, in)
	}
	return policy
}

// policiesFor returns the rules of which the policy for a service consists.
func (s *Scope) policiesFor(host, namespace string) []*Config[*networking.DestinationRule] {
	for _, in := range []string{s.Namespace, namespace, s.mesh.settings.RootNamespace()} {
		rules := s.mesh.destinationRules[in]
		if rules == nil {
			continue
		}
		for _, all := range rules.matching(host) {
			if chosen := s.chosen(in, all); len(chosen) > 0 {
				return chosen
			}
		}
	}
	return nil
}

// WithoutEndpoints returns a service of the scope without its endpoints: the same pointer in the next generation if nothing else
// of it has changed.
func (s *Scope) WithoutEndpoints(service *Service) *Service {
	if s.dependencies != nil {
		return service // has none
	}
	return s.mesh.bare(service)
}

// Services returns every service to which the workload's requests may be routed, by host. A recording scope returns
// nil.
func (s *Scope) Services() []*Service { return s.services }

// Egress returns the services and rules of the workload by egress listener. A recording scope returns nil.
func (s *Scope) Egress() []Egress { return s.egress }
