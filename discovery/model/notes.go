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
	for _, v := range m.virtualServices {
		for i, gateway := range v.Spec.Gateways {
			if !gateways[gateway] {
				m.note(v.Meta, index("spec.gateways", i), "gateway %s does not exist", gateway)
			}
		}
		m.judgeDestinations(v)
	}
	m.judgeConflicts()
	m.sortNotes()
}

// judgeAgain judges a rule whose routes alone changed.
func (m *Mesh) judgeAgain(v *Config[*networking.VirtualService]) {
	paths := map[string]bool{} // that others than its routes have
	for i := range v.Spec.Hosts {
		paths[index("spec.hosts", i)] = true
	}
	for i := range v.Spec.Gateways {
		paths[index("spec.gateways", i)] = true
	}
	m.notes = slices.DeleteFunc(slices.Clone(m.notes),
		func(n Note) bool { return n.Meta.Key() == v.Key() && !paths[n.Path] })
	m.judgeDestinations(v)
	m.sortNotes()
}

// moveNotes lets what is said of an object name the lines where it is now.
func (m *Mesh) moveNotes(meta Meta) {
	if !slices.ContainsFunc(m.notes, func(n Note) bool { return n.Meta.Key() == meta.Key() }) {
		return
	}
	m.notes = slices.Clone(m.notes)
	for i := range m.notes {
		if m.notes[i].Meta.Key() == meta.Key() {
			m.notes[i].Meta = meta
		}
	}
}

func (m *Mesh) sortNotes() {
	slices.SortStableFunc(m.notes,
		func(a, b Note) int { return cmp.Or(a.Meta.Older(b.Meta), cmp.Compare(a.Path, b.Path)) })
}

func (m *Mesh) note(meta Meta, path, format string, args ...any) {
	m.notes = append(m.notes, Note{meta, path, fmt.Sprintf(format, args...)})
}

func name(m Meta) string { return m.Kind + " " + m.Namespace + "/" + m.Name }

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func (m *Mesh) judgeDestinations(v *Config[*networking.VirtualService]) {
	for d, path := range destinations(v.Spec) {
		m.judgeDestination(v, d, path)
	}
}

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
				if hasSubset(r, d.Subset) {
					return
				}
			}
		}
	}
	m.note(v.Meta, path+".subset", "no DestinationRule of %s has a subset %s: requests are answered 503", d.Host,
		d.Subset)
}

func hasSubset(r *Config[*networking.DestinationRule], name string) bool {
	return slices.ContainsFunc(r.Spec.Subsets, func(s *networking.Subset) bool { return s.GetName() == name })
}
