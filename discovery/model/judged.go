package model

import (
	networking "istio.io/api/networking/v1alpha3"
)

// Judged tells which objects of a mesh have no note, so that the notes of a later mesh are made by what changed. It is immutable.
type Judged struct {
	base     *Generation
	services []*Service
	objects  []*Object // all of the mesh
	clean    []bool    // of each of objects: it has no note, and that depends on its own spec and on its host's services only
	looked   int       // how many objects were judged

	mesh     *Mesh
	examined int               // how many proxies were
	proxies  map[int64]verdict // of each connected proxy, by its stream
}

// verdicts returns what is known of proxies that were connected already, nil if the mesh was another.
func (j *Judged) verdicts(m *Mesh) map[int64]verdict {
	if j == nil || j.mesh != m {
		return nil
	}
	return j.proxies
}

// lasting holds what is known of objects from an earlier judgement of a mesh of which this one was made by With: the objects are
// the same, in the same places, or others of the same names with other routes or endpoints.
type lasting struct {
	last  *Judged // nil if nothing is known
	moved map[string]bool
}

func (m *Mesh) lasting(last *Judged) lasting {
	if last == nil || last.base != m.base || len(last.services) != len(m.services) || len(last.objects) != len(m.objects) {
		return lasting{}
	}
	out := lasting{last, map[string]bool{}}
	for i, s := range m.services {
		if s != last.services[i] {
			out.moved[s.Host] = true
		}
	}
	return out
}

// clean reports whether an object, the one at a place, still has no note.
func (l lasting) clean(m *Mesh, at int) bool {
	if l.last == nil || !l.last.clean[at] {
		return false
	}
	o := m.objects[at]
	if o.Spec != l.last.objects[at].Spec {
		return false
	}
	r, policy := o.Spec.(*networking.DestinationRule)
	return !policy || len(l.moved) == 0 || !l.moved[m.settings.Domain.Qualify(r.Host, o.Namespace)]
}

// alone reports whether the notes of an object depend only on its spec, on the services of its host if it is a policy, and on
// what With leaves as it is: neither on connected proxies nor on the labels of workloads.
func alone(o *Object) bool {
	switch spec := o.Spec.(type) {
	case *networking.VirtualService:
		return len(spec.ExportTo) == 0
	case *networking.DestinationRule:
		p := spec.TrafficPolicy
		return len(spec.ExportTo) == 0 && len(spec.GetWorkloadSelector().GetMatchLabels()) == 0 && p.GetTls() == nil && len(p.GetPortLevelSettings()) == 0
	default:
		return false
	}
}
