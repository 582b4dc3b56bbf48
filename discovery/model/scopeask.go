package model

import networking "istio.io/api/networking/v1alpha3"

// The questions of a scope. Where its answers are recorded (see RecallScoped), services come without their endpoints.

// Service returns the service of a host, nil where the workload sees none.
func (s *Scope) Service(host string) *Service {
	if s.dependencies != nil {
		return ask[*Service](s, serviceQuestion{host})
	}
	return s.byHost[host]
}

// ServicesOn returns the services of an egress that have a port, or all for port 0, by host.
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

// Rule returns the rules of a host in an egress, nil for none.
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

// OutboundPolicy returns what becomes of requests to destinations that the workload does not know.
func (s *Scope) OutboundPolicy() OutboundPolicy {
	if s.dependencies != nil {
		return ask[OutboundPolicy](s, outboundQuestion{})
	}
	return s.outbound
}

// Settings returns what holds for the whole mesh.
func (s *Scope) Settings() Settings {
	if s.dependencies != nil {
		return ask[Settings](s, settingsQuestion{})
	}
	return s.mesh.settings
}

// DestinationRule returns the policy for a service: of the workload's own namespace, else of the service's, else of the
// root namespace; in each the one with the narrowest host, and of these the one that selects the workload. Several for
// one host are one: their subsets together, and the oldest's policy. Nil where there is none.
func (s *Scope) DestinationRule(service *Service) *networking.DestinationRule {
	if s.dependencies != nil {
		return ask[*networking.DestinationRule](s, policyQuestion{service.Host, service.Namespace})
	}
	return s.policyFor(service.Host, service.Namespace)
}

func (s *Scope) policyFor(host, namespace string) *networking.DestinationRule {
	for _, in := range []string{s.Namespace, namespace, s.mesh.settings.RootNamespace()} {
		rules := s.mesh.destinationRules[in]
		if rules == nil {
			continue
		}
		for _, all := range rules.matching(host) {
			if rule := s.merge(in, all); rule != nil {
				return rule
			}
		}
	}
	return nil
}

// Services returns every service that the workload may be led to, by host. A scope that notes its answers has none.
func (s *Scope) Services() []*Service { return s.services }

// Egress returns what the workload reaches, by listener. A scope that notes its answers has none.
func (s *Scope) Egress() []Egress { return s.egress }
