package model

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Visible reports whether an object of namespace own that is exported to exportTo is seen from namespace from. Nothing
// said is everything, as Istio's default.
func Visible(exportTo []string, own, from string) bool {
	if len(exportTo) == 0 {
		return true
	}
	return slices.ContainsFunc(exportTo, func(to string) bool {
		return to == "*" || to == from || to == "." && own == from
	})
}

func (m *Mesh) serviceVisible(s *Service, from string) bool {
	return Visible(orDefault(s.ExportTo, m.settings.Config.GetDefaultServiceExportTo()), s.Namespace, from)
}

// VisibleService returns the service of a host as a namespace sees it: its own, else the oldest, nil for none.
func (m *Mesh) VisibleService(host, from string) *Service {
	var found *Service
	for _, s := range m.claims(host) {
		if m.serviceVisible(s, from) && (found == nil || s.Namespace == from) {
			found = s
		}
	}
	return found
}

func (m *Mesh) ruleVisible(v *Config[*networking.VirtualService], from string) bool {
	exportTo := orDefault(v.Spec.ExportTo, m.settings.Config.GetDefaultVirtualServiceExportTo())
	return Visible(exportTo, v.Namespace, from)
}

func (m *Mesh) policyVisible(d *Config[*networking.DestinationRule], from string) bool {
	exportTo := orDefault(d.Spec.ExportTo, m.settings.Config.GetDefaultDestinationRuleExportTo())
	return Visible(exportTo, d.Namespace, from)
}

func orDefault(list, otherwise []string) []string {
	if len(list) == 0 {
		return otherwise
	}
	return list
}

// LabelsRead returns the keys of labels that decide what a workload of namespace is told: selectors of its namespace,
// and the sources that rules match. A gateway is also told by the selectors of Gateways.
func (m *Mesh) LabelsRead(namespace string, gateway bool) map[string]bool {
	out := map[string]bool{}
	read := func(labels map[string]string) {
		for key := range labels {
			out[key] = true
		}
	}
	if gateway {
		for _, g := range m.gateways {
			read(g.Spec.Selector)
		}
	}
	for _, s := range m.sidecars {
		if s.Namespace == namespace {
			read(s.Spec.GetWorkloadSelector().GetLabels())
		}
	}
	for in, rules := range m.destinationRules {
		for _, all := range rules.values {
			for _, r := range all {
				if in == namespace {
					read(r.Spec.GetWorkloadSelector().GetMatchLabels())
				}
				for _, key := range r.Spec.GetTrafficPolicy().GetLoadBalancer().GetLocalityLbSetting().GetFailoverPriority() {
					key, _, _ := strings.Cut(key, "=")
					out[key] = true
				}
				for _, subset := range r.Spec.Subsets {
					for _, key := range subset.GetTrafficPolicy().GetLoadBalancer().GetLocalityLbSetting().GetFailoverPriority() {
						key, _, _ := strings.Cut(key, "=")
						out[key] = true
					}
				}
			}
		}
	}
	for _, v := range m.virtualServices {
		for _, r := range v.Spec.Http {
			for _, match := range r.Match {
				read(match.GetSourceLabels())
			}
		}
		for _, r := range v.Spec.Tls {
			for _, match := range r.Match {
				read(match.GetSourceLabels())
			}
		}
		for _, r := range v.Spec.Tcp {
			for _, match := range r.Match {
				read(match.GetSourceLabels())
			}
		}
	}
	for _, key := range m.settings.Locality().GetFailoverPriority() {
		key, _, _ := strings.Cut(key, "=")
		out[key] = true
	}
	return out
}
