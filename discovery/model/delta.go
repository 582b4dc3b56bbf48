package model

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Generation identifies a Mesh. It holds no data, so a reference to it keeps no Mesh in memory.
type Generation struct{ _ byte }

// Delta describes the difference between a Mesh and the one before it, if the difference is small.
type Delta struct {
	ID, Since *Generation  // of this Mesh and the one before; Since is nil if more than these may differ
	Services  []*Service   // with changed endpoints
	Rules     []RuleChange // with changed HTTP routes
}

// RuleChange is a VirtualService before and after a change. Both versions have the same name, hosts, gateways and age.
type RuleChange struct {
	From, To *Config[*networking.VirtualService]
}

// Delta returns the difference between m and the generation before.
func (m *Mesh) Delta() Delta { return m.delta }

type serviceKey struct{ host, namespace string }

func (s *Service) key() serviceKey { return serviceKey{s.Host, s.Namespace} }

// maxMoved is how many services may change at once, and how many ServiceEntries and rules in all, before the whole mesh is
// indexed again: from there on this costs less.
const maxMoved = 64

// With returns the generation after m in which these services and objects, and the services that these objects declare,
// replace those of the same name. workloads are added or removed; no service may select them. The cost depends on the
// size of the change, and on the length of the lists that are copied. With returns false, and the caller must use Next, if anything other than endpoints of
// services and HTTP routes of VirtualServices changes, or if these affect more than the destination of requests.
func (m *Mesh) With(services []*Service, objects []*Object, workloads ...WorkloadChange) (*Mesh, bool) {
	next := *m
	services = slices.Clip(services)
	for _, o := range objects {
		if entry, ok := o.Spec.(*networking.ServiceEntry); ok {
			services = append(services, next.redeclare(m, o, entry)...)
		}
	}
	next.delta = Delta{ID: new(Generation), Since: m.delta.ID}
	next.objects = slices.Clone(m.objects)
	for _, o := range objects {
		if !next.replaceObject(o) {
			return nil, false
		}
	}
	if !next.moveServices(services) || !next.moveWorkloads(workloads) || len(services)+len(objects)+len(workloads) == 0 {
		return nil, false
	}
	return &next, true
}

// moveServices replaces the services of the same declarations, and records in the delta which services of the mesh
// change because of it.
func (m *Mesh) moveServices(services []*Service) bool {
	if len(services) == 0 {
		return true
	}
	if len(services) > maxMoved {
		return false
	}
	m.services = slices.Clone(m.services)
	m.selecting = maps.Clone(m.selecting)
	moved := map[serviceKey]*Service{}
	var order []serviceKey
	for _, s := range services {
		if _, unused := m.shut[s.declaration()]; unused {
			continue
		}
		if len(s.Selector) > 0 {
			m.selecting[s.Namespace] = redeclared(m.selecting[s.Namespace], s)
			s = m.withWorkloads(s, m.takenBy(s))
		}
		claims := m.claims(s.Host)
		i := slices.IndexFunc(claims, func(o *Service) bool { return o.Namespace == s.Namespace })
		if i < 0 {
			return false
		}
		if all := m.contested[s.key()]; len(all) > 0 {
			all, ok := all.with(s)
			if !ok {
				return false
			}
			m.contested = maps.Clone(m.contested)
			m.contested[s.key()] = all
			s = all.join()
		} else if claims[i].declaration() != s.declaration() || !onlyEndpoints(claims[i], s) {
			return false
		}
		s = s.withAliasesOf(claims[i])
		if !m.respend(s.Namespace, m.chargeOf(claims[i]), m.chargeOf(s)) {
			return false
		}
		if m.movesDoors(claims[i], s) {
			return false
		}
		m.moveEndpoints(claims[i], s)
		m.depart(claims[i], s)
		claims[i] = s
		moved[s.key()] = s
		if !slices.Contains(order, s.key()) {
			order = append(order, s.key())
		}
	}
	m.delta.Services = make([]*Service, len(order))
	for i, key := range order {
		m.delta.Services[i] = moved[key]
	}
	return len(m.redeclared) <= maxMoved
}

// redeclared returns a list of declarations with s in the place of its previous version.
func redeclared(all []*Service, s *Service) []*Service {
	out := slices.Clone(all)
	for i, o := range out {
		if o.Host == s.Host && o.declaration() == s.declaration() {
			out[i] = s
		}
	}
	return out
}

func onlyEndpoints(a, b *Service) bool {
	return a.Headless == b.Headless && maps.Equal(a.Selector, b.Selector) &&
		a.Created.Equal(b.Created) && a.Right == b.Right && a.Resolution == b.Resolution && a.External == b.External && a.ExternalName == b.ExternalName &&
		a.NodeLocal == b.NodeLocal && a.Prefer == b.Prefer &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Ports, b.Ports) && slices.Equal(a.Ignored, b.Ignored) &&
		slices.Equal(a.ExportTo, b.ExportTo) &&
		slices.Equal(a.SubjectAltNames, b.SubjectAltNames) && slices.Equal(a.Accounts, b.Accounts)
}

// replaceObject returns false if the object is new, or if several objects have its key.
func (m *Mesh) replaceObject(o *Object) bool {
	i, found := place(m.objects, o.Meta, func(o *Object) Meta { return o.Meta })
	if !found || m.twins[o.Key()] > 0 {
		return false
	}
	was := m.objects[i]
	m.objects[i] = o
	if o.Spec == was.Spec && maps.Equal(o.Labels, was.Labels) && o.DryRun == was.DryRun && o.Closed == was.Closed {
		return true // only its line changed, as for all objects below an edit in a file; values made from it stay valid
	}
	switch spec := o.Spec.(type) {
	case *networking.ServiceEntry:
		return slices.Equal(spec.Hosts, was.Spec.(*networking.ServiceEntry).Hosts)
	case *networking.VirtualService:
		return m.replaceRule(o.Meta, was.Spec.(*networking.VirtualService), spec)
	default:
		return false
	}
}

func (m *Mesh) replaceRule(meta Meta, was, spec *networking.VirtualService) bool {
	i, found := place(m.virtualServices, meta, func(v *Config[*networking.VirtualService]) Meta { return v.Meta })
	if !found || !onlyRoutes(was, spec) {
		return false
	}
	change := RuleChange{
		m.virtualServices[i],
		&Config[*networking.VirtualService]{meta, m.settings.Domain.qualifyVirtualService(spec, meta)},
	}
	if m.countsRule(change.To) && !m.respend(meta.Namespace, m.costOfRule(change.From), m.costOfRule(change.To)) {
		return false
	}
	if len(m.delta.Rules) == 0 {
		m.virtualServices = slices.Clone(m.virtualServices)
	}
	m.virtualServices[i] = change.To
	m.delta.Rules = append(m.delta.Rules, change)
	return len(m.delta.Rules) <= maxMoved
}

// onlyRoutes reports whether two VirtualServices of one name differ only in the way their HTTP routes handle requests.
func onlyRoutes(a, b *networking.VirtualService) bool {
	plain := func(v *networking.VirtualService) bool {
		return len(v.Hosts) > 0 && len(v.Tcp)+len(v.Tls) == 0 &&
			!slices.ContainsFunc(v.Http, func(r *networking.HTTPRoute) bool { return r.Delegate != nil })
	}
	return plain(a) && plain(b) && slices.Equal(a.Hosts, b.Hosts) && slices.Equal(a.Gateways, b.Gateways) &&
		slices.Equal(a.ExportTo, b.ExportTo) && maps.Equal(sourceLabels(a), sourceLabels(b)) &&
		slices.Equal(sourceNamespaces(a), sourceNamespaces(b))
}

// place finds the element with the name, age and kind of meta in a list that is sorted by age.
func place[T any](list []T, meta Meta, of func(T) Meta) (int, bool) {
	i, _ := slices.BinarySearchFunc(list, meta, func(x T, m Meta) int { return of(x).Older(m) })
	for ; i < len(list) && of(list[i]).Older(meta) == 0; i++ {
		if of(list[i]).Kind == meta.Kind {
			return i, true
		}
	}
	return 0, false
}
