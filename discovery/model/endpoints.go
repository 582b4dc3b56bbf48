package model

import (
	"maps"
	"slices"
)

// Generation is what tells one Mesh from another. It holds nothing, so that knowing one keeps no Mesh alive.
type Generation struct{ _ byte }

// Delta is how a Mesh differs from the one before, where only endpoints of services do.
type Delta struct {
	ID, Since *Generation // its own, and that of the Mesh before; Since is nil where more may differ
	Services  []*Service  // those whose endpoints changed
}

// Delta returns how m differs from the generation before.
func (m *Mesh) Delta() Delta { return m.delta }

type serviceKey struct{ host, namespace string }

func (s *Service) key() serviceKey { return serviceKey{s.Host, s.Namespace} }

// maxMoved is how many services may have moved before all are indexed again.
const maxMoved = 64

// WithEndpoints returns the generation after m in which these services, and the objects that declare them, take the
// place of those of the same name. It costs what changed: it is false, and Next is needed, where a service is new or
// more than its endpoints changed, or its endpoints decide more than where requests to it go.
func (m *Mesh) WithEndpoints(services []*Service, objects []*Object) (*Mesh, bool) {
	next := *m
	next.services = slices.Clone(m.services)
	next.objects = slices.Clone(m.objects)
	next.moved = maps.Clone(m.moved)
	if next.moved == nil {
		next.moved = map[serviceKey]*Service{}
	}
	for _, s := range services {
		claims := next.claims(s.Host)
		i := slices.IndexFunc(claims, func(o *Service) bool { return o.Namespace == s.Namespace })
		if i < 0 || !onlyEndpoints(claims[i], s) {
			return nil, false
		}
		claims[i] = s
		next.moved[s.key()] = s
	}
	for _, o := range objects {
		i, _ := slices.BinarySearchFunc(next.objects, o, func(a, b *Object) int { return a.Older(b.Meta) })
		for i < len(next.objects) && next.objects[i].Key() != o.Key() && next.objects[i].Older(o.Meta) == 0 {
			i++
		}
		if i == len(next.objects) || next.objects[i].Key() != o.Key() || o.Kind != "ServiceEntry" {
			return nil, false
		}
		next.objects[i] = o
	}
	if len(next.moved) > maxMoved {
		return nil, false
	}
	next.delta = Delta{ID: new(Generation), Since: m.delta.ID, Services: services}
	return &next, true
}

func onlyEndpoints(a, b *Service) bool {
	return !a.Headless && !b.Headless && len(a.Selector)+len(b.Selector) == 0 &&
		a.Created.Equal(b.Created) && a.Resolution == b.Resolution && a.External == b.External &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Ports, b.Ports) && slices.Equal(a.ExportTo, b.ExportTo) &&
		slices.Equal(a.SubjectAltNames, b.SubjectAltNames)
}
