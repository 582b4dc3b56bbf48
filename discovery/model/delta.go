package model

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Generation is what tells one Mesh from another. It holds nothing, so that knowing one keeps no Mesh alive.
type Generation struct{ _ byte }

// Delta is how a Mesh differs from the one before, where little does.
type Delta struct {
	ID, Since *Generation  // its own, and that of the Mesh before; Since is nil where more may differ
	Services  []*Service   // those whose endpoints changed
	Rules     []RuleChange // those whose HTTP routes changed
}

// RuleChange is a VirtualService as it was and as it is. Both have the same name, hosts, gateways and age.
type RuleChange struct {
	From, To *Config[*networking.VirtualService]
}

// Delta returns how m differs from the generation before.
func (m *Mesh) Delta() Delta { return m.delta }

type serviceKey struct{ host, namespace string }

func (s *Service) key() serviceKey { return serviceKey{s.Host, s.Namespace} }

// maxMoved is how many services, or rules, may have moved before all are indexed again.
const maxMoved = 64

// With returns the generation after m in which these services and objects, and the services that those declare, take the
// place of those of the same name, and workloads come and go that no service selects. It costs
// what changed. It is false, and Next is needed, where anything but endpoints of services and HTTP routes of
// VirtualServices changes, or where these decide more than where requests go.
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

// moveServices puts services in the place of those of the same declaration, and notes the services of the mesh that change
// by it.
func (m *Mesh) moveServices(services []*Service) bool {
	if len(services) == 0 {
		return true
	}
	m.services = slices.Clone(m.services)
	m.moved = maps.Clone(m.moved)
	if m.moved == nil {
		m.moved = map[serviceKey]*Service{}
	}
	var order []serviceKey
	for _, s := range services {
		if len(s.Selector) > 0 {
			s = m.withWorkloads(s)
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
		claims[i] = s
		m.moved[s.key()] = s
		if !slices.Contains(order, s.key()) {
			order = append(order, s.key())
		}
	}
	m.delta.Services = make([]*Service, len(order))
	for i, key := range order {
		m.delta.Services[i] = m.moved[key]
	}
	return len(m.moved) <= maxMoved
}

func onlyEndpoints(a, b *Service) bool {
	return !a.Headless && !b.Headless && maps.Equal(a.Selector, b.Selector) &&
		a.Created.Equal(b.Created) && a.Resolution == b.Resolution && a.External == b.External && a.Checked == b.Checked &&
		a.NodeLocal == b.NodeLocal && a.Prefer == b.Prefer &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Ports, b.Ports) && slices.Equal(a.Ignored, b.Ignored) &&
		slices.Equal(a.ExportTo, b.ExportTo) &&
		slices.Equal(a.SubjectAltNames, b.SubjectAltNames) && slices.Equal(a.Accounts, b.Accounts)
}

// replaceObject is false where the object is new, or another is known under its name.
func (m *Mesh) replaceObject(o *Object) bool {
	i, found := place(m.objects, o.Meta, func(o *Object) Meta { return o.Meta })
	if !found || m.twins[o.Key()] {
		return false
	}
	was := m.objects[i]
	m.objects[i] = o
	if o.Spec == was.Spec && maps.Equal(o.Labels, was.Labels) {
		return true // it only stands elsewhere, as all that is below an edit does; what was made of it stays
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
		&Config[*networking.VirtualService]{meta, qualifyVirtualService(spec, meta.Namespace)},
	}
	if len(m.delta.Rules) == 0 {
		m.virtualServices = slices.Clone(m.virtualServices)
	}
	m.virtualServices[i] = change.To
	m.delta.Rules = append(m.delta.Rules, change)
	return len(m.delta.Rules) <= maxMoved
}

// onlyRoutes reports whether two VirtualServices of one name differ in nothing but what their HTTP routes do with
// requests.
func onlyRoutes(a, b *networking.VirtualService) bool {
	plain := func(v *networking.VirtualService) bool {
		return len(v.Hosts) > 0 && len(v.Tcp)+len(v.Tls) == 0 &&
			!slices.ContainsFunc(v.Http, func(r *networking.HTTPRoute) bool { return r.Delegate != nil })
	}
	return plain(a) && plain(b) && slices.Equal(a.Hosts, b.Hosts) && slices.Equal(a.Gateways, b.Gateways) &&
		slices.Equal(a.ExportTo, b.ExportTo) && maps.Equal(sourceLabels(a), sourceLabels(b)) &&
		slices.Equal(sourceNamespaces(a), sourceNamespaces(b))
}

// place finds the one of that name and age in a list that is sorted by age.
func place[T any](list []T, meta Meta, of func(T) Meta) (int, bool) {
	i, _ := slices.BinarySearchFunc(list, meta, func(x T, m Meta) int { return of(x).Older(m) })
	for ; i < len(list) && of(list[i]).Older(meta) == 0; i++ {
		if of(list[i]).Kind == meta.Kind {
			return i, true
		}
	}
	return 0, false
}
