package model

import (
	"maps"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// labelKeys are the keys of labels that decide the configuration of a workload.
type labelKeys map[string]bool

func (k labelKeys) read(labels map[string]string) {
	for key := range labels {
		k[key] = true
	}
}

// priorities adds the label keys of a failoverPriority list.
func (k labelKeys) priorities(s *networking.LocalityLoadBalancerSetting) {
	for _, entry := range s.GetFailoverPriority() {
		key, _, _ := strings.Cut(entry, "=")
		k[key] = true
	}
}

func (k labelKeys) policy(p *networking.TrafficPolicy) {
	k.priorities(p.GetLoadBalancer().GetLocalityLbSetting())
	for _, level := range p.GetPortLevelSettings() {
		k.priorities(level.GetLoadBalancer().GetLocalityLbSetting())
	}
}

// labels holds the keys of the workload labels that the configuration reads.
type labels struct {
	every    labelKeys            // read for every workload: source labels of rules, and failoverPriority
	gateways labelKeys            // selectors of Gateways
	of       map[string]labelKeys // by namespace: selectors of its Sidecars and DestinationRules
	fronts   map[string]labelKeys // by namespace: selectors of its Services, of which gateways open the ports
	guards   map[string]labelKeys // by namespace: selectors of its policies
}

// LabelsRead returns the keys of labels that affect the configuration of a workload of namespace: selectors of objects
// in its namespace, source labels in rules, and failoverPriority. For a gateway, the selectors of Gateways, of the
// Services of its namespace and of policies are included: those of a sidecar's policies are for inbound traffic.
func (m *Mesh) LabelsRead(namespace string, gateway bool) map[string]bool {
	out := maps.Clone(m.labels.every)
	maps.Copy(out, m.labels.of[namespace])
	if gateway {
		maps.Copy(out, m.labels.gateways)
		maps.Copy(out, m.labels.fronts[namespace])
		maps.Copy(out, m.labels.guards[namespace])
		maps.Copy(out, m.labels.guards[m.settings.RootNamespace()])
	}
	return out
}

func (m *Mesh) indexLabels() {
	m.labels = labels{every: labelKeys{}, gateways: labelKeys{}, of: map[string]labelKeys{}, fronts: map[string]labelKeys{}, guards: m.policies.labels()}
	for namespace, all := range m.selecting {
		m.labels.fronts[namespace] = labelKeys{}
		for _, s := range all {
			m.labels.fronts[namespace].read(s.Selector)
		}
	}
	in := func(namespace string) labelKeys {
		if m.labels.of[namespace] == nil {
			m.labels.of[namespace] = labelKeys{}
		}
		return m.labels.of[namespace]
	}
	for _, g := range m.gateways {
		m.labels.gateways.read(g.Spec.Selector)
	}
	for _, s := range m.sidecars {
		in(s.Namespace).read(s.Spec.GetWorkloadSelector().GetLabels())
	}
	for namespace, rules := range m.destinationRules {
		for _, all := range rules.values {
			for _, r := range all {
				in(namespace).read(r.Spec.GetWorkloadSelector().GetMatchLabels())
				m.labels.every.policy(r.Spec.TrafficPolicy)
				for _, subset := range r.Spec.Subsets {
					m.labels.every.policy(subset.GetTrafficPolicy())
				}
			}
		}
	}
	for _, v := range m.virtualServices {
		maps.Copy(m.labels.every, sourceLabels(v.Spec))
	}
	m.labels.every.priorities(m.settings.Locality())
}
