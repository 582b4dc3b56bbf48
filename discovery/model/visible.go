package model

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Visible reports whether an object of namespace own that is exported to exportTo is visible from namespace from. An
// empty list exports to all namespaces, which is Istio's default.
func Visible(exportTo []string, own, from string) bool {
	if len(exportTo) == 0 {
		return true
	}
	return slices.ContainsFunc(exportTo, func(to string) bool {
		return to == "*" || to == from || to == "." && own == from
	})
}

func (m *Mesh) serviceVisible(s *Service, from string) bool {
	return Visible(orDefault(s.ExportTo, m.settings.Config.GetDefaultServiceExportTo()), s.Namespace, from) && !m.keptFrom("", s.Namespace, s.Host, from)
}

// VisibleService returns the service of a host that a namespace sees: its own, else the first, or nil if there is none.
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
	return m.exportsRule(v.Meta, v.Spec, from) && !m.keptFrom(v.Kind, v.Namespace, v.Name, from)
}

// exportsRule reports whether a VirtualService, which may be a delegate, is visible to a namespace.
func (m *Mesh) exportsRule(meta Meta, v *networking.VirtualService, to string) bool {
	return Visible(orDefault(v.ExportTo, m.settings.Config.GetDefaultVirtualServiceExportTo()), meta.Namespace, to)
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
