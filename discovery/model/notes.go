package model

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// judge notes what only the whole mesh can tell.
func (m *Mesh) judge() {
	gateways := map[string]bool{MeshGateway: true}
	for _, g := range m.gateways {
		gateways[g.Namespace+"/"+g.Name] = true
	}
	owners := map[string]Meta{}
	for _, v := range m.virtualServices {
		for i, host := range v.Spec.Hosts {
			if !Names(v.Spec.Gateways, MeshGateway) || len(v.Spec.ExportTo) > 0 {
				continue
			}
			if winner, taken := owners[host]; taken {
				m.note(v.Meta, index("spec.hosts", i), "%s is claimed by %s, which is older or comes first: this one is not used for it", host, name(winner))
				continue
			}
			owners[host] = v.Meta
		}
		for i, gateway := range v.Spec.Gateways {
			if !gateways[gateway] {
				m.note(v.Meta, index("spec.gateways", i), "gateway %s does not exist", gateway)
			}
		}
		for d, path := range destinations(v.Spec) {
			m.judgeDestination(v, d, path)
		}
	}
	m.judgePolicies()
	slices.SortStableFunc(m.notes, func(a, b Note) int { return cmp.Or(a.Meta.Older(b.Meta), cmp.Compare(a.Path, b.Path)) })
}

func (m *Mesh) note(meta Meta, path, format string, args ...any) {
	m.notes = append(m.notes, Note{meta, path, fmt.Sprintf(format, args...)})
}

func name(m Meta) string { return m.Kind + " " + m.Namespace + "/" + m.Name }

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func (m *Mesh) judgeDestination(v *Config[*networking.VirtualService], d *networking.Destination, path string) {
	service := m.Service(d.Host)
	if service == nil {
		return // a registry may learn of it later, and an unknown host is no fault of the file
	}
	if port := d.GetPort().GetNumber(); port != 0 {
		if _, ok := service.Port(port); !ok {
			m.note(v.Meta, path+".port.number", "%s has no port %d: requests are answered 503", d.Host, port)
		}
	}
	if d.Subset == "" {
		return
	}
	for _, rules := range m.destinationRules {
		for _, all := range rules.matching(d.Host) {
			for _, r := range all {
				if slices.ContainsFunc(r.Spec.Subsets, func(s *networking.Subset) bool { return s.GetName() == d.Subset }) {
					return
				}
			}
		}
	}
	m.note(v.Meta, path+".subset", "no DestinationRule of %s has a subset %s: requests are answered 503", d.Host, d.Subset)
}

// judgePolicies notes the subsets and policies that another rule for the host has already.
func (m *Mesh) judgePolicies() {
	for _, rules := range m.destinationRules {
		for host, all := range rules.values {
			for _, r := range all[1:] {
				first := all[0]
				if r.Spec.WorkloadSelector != nil || first.Spec.WorkloadSelector != nil {
					continue
				}
				if r.Spec.TrafficPolicy != nil && first.Spec.TrafficPolicy != nil {
					m.note(r.Meta, "spec.trafficPolicy", "%s has one from %s, which is older or comes first: this one is not used", host, name(first.Meta))
				}
				for i, subset := range r.Spec.Subsets {
					if slices.ContainsFunc(first.Spec.Subsets, func(s *networking.Subset) bool { return s.GetName() == subset.GetName() }) {
						m.note(r.Meta, index("spec.subsets", i), "%s has a subset %s from %s, which is older or comes first: this one is not used",
							host, subset.GetName(), name(first.Meta))
					}
				}
			}
		}
	}
}
