package model

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Rules are the VirtualServices that apply to one gateway, or to the mesh. If two have rules for one host, the first is
// used.
type Rules struct {
	hosts byHost[*Config[*networking.VirtualService]]
	all   []*Config[*networking.VirtualService] // in the order of rulesFor

	// moved maps a rule of hosts or all to the rule that replaced it, so that a change needs no new index.
	moved map[*Config[*networking.VirtualService]]*Config[*networking.VirtualService]
}

func newRules(all []*Config[*networking.VirtualService]) Rules {
	r := Rules{all: all}
	for _, v := range all {
		for _, host := range v.Spec.Hosts {
			if _, taken := r.hosts.values[host]; !taken {
				r.hosts.set(host, v)
			}
		}
	}
	return r
}

// now returns the current version of v.
func (r Rules) now(v *Config[*networking.VirtualService]) *Config[*networking.VirtualService] {
	if moved, ok := r.moved[v]; ok {
		return moved
	}
	return v
}

// with returns the rules after some changes; changes of rules that r does not contain have no effect.
func (r Rules) with(changes []RuleChange) Rules {
	moved := maps.Clone(r.moved)
	if moved == nil {
		moved = map[*Config[*networking.VirtualService]]*Config[*networking.VirtualService]{}
	}
	for _, c := range changes {
		original := c.From
		for first, last := range r.moved {
			if last == c.From {
				original = first
			}
		}
		moved[original] = c.To
	}
	r.moved = moved
	return r
}

// For returns the rules of a host: its own, else those of the narrowest wildcard that matches it, or nil if there are
// none.
func (r Rules) For(host string) *Config[*networking.VirtualService] {
	for _, v := range r.hosts.matching(host) {
		return r.now(v)
	}
	return nil
}

// Hosts yields each host that has rules of its own, with these rules, in no particular order.
func (r Rules) Hosts() iter.Seq2[string, *Config[*networking.VirtualService]] {
	return func(yield func(string, *Config[*networking.VirtualService]) bool) {
		for host, v := range r.hosts.values {
			if !yield(host, r.now(v)) {
				return
			}
		}
	}
}

// All returns the rules, in the order of rulesFor.
func (r Rules) All() []*Config[*networking.VirtualService] {
	if len(r.moved) == 0 {
		return r.all
	}
	out := slices.Clone(r.all)
	for i, v := range out {
		out[i] = r.now(v)
	}
	return out
}

// GatewayRules returns the rules that name a gateway and are visible to a workload of namespace, in the order of
// rulesFor. Of rules of equal age, such as those in files, the namespace's own go first.
func (m *Mesh) GatewayRules(gateway *Config[*networking.Gateway], namespace string) []*Config[*networking.VirtualService] {
	out := m.rulesFor(gateway.Namespace+"/"+gateway.Name, namespace)
	foreign := func(v *Config[*networking.VirtualService]) int {
		if v.Namespace == namespace {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *Config[*networking.VirtualService]) int {
		return cmp.Or(m.rank(a, namespace)-m.rank(b, namespace), a.Created.Compare(b.Created), foreign(a)-foreign(b))
	})
	return out
}

// rulesFor returns the rules that name a gateway and are visible to a namespace. The order is: the namespace's own
// rules that are not exported to all namespaces; then rules that other namespaces export to it by name; then rules that
// are exported to all. Within each group the oldest is first.
func (m *Mesh) rulesFor(gateway, namespace string) []*Config[*networking.VirtualService] {
	var out []*Config[*networking.VirtualService]
	for _, v := range m.virtualServices {
		if m.ruleVisible(v, namespace) && Names(v.Spec.Gateways, gateway) {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b *Config[*networking.VirtualService]) int {
		return cmp.Compare(m.rank(a, namespace), m.rank(b, namespace))
	})
	return out
}

// rank returns the group of rulesFor to which a rule belongs, for a namespace.
func (m *Mesh) rank(v *Config[*networking.VirtualService], namespace string) int {
	switch {
	case m.forAll(v):
		return 2
	case v.Namespace != namespace:
		return 1
	default:
		return 0
	}
}

// forAll reports whether a rule is exported to every namespace.
func (m *Mesh) forAll(v *Config[*networking.VirtualService]) bool {
	to := orDefault(v.Spec.ExportTo, m.settings.Config.GetDefaultVirtualServiceExportTo())
	return len(to) == 0 || slices.Contains(to, "*")
}

// before reports whether every namespace that sees both uses the younger rule rather than the older one (see rulesFor).
func (m *Mesh) before(younger, older *Config[*networking.VirtualService]) bool {
	home := !slices.ContainsFunc(orDefault(younger.Spec.ExportTo, m.settings.Config.GetDefaultVirtualServiceExportTo()),
		func(to string) bool { return to != "." && to != younger.Namespace })
	return !m.forAll(younger) && (m.forAll(older) || home && younger.Namespace != older.Namespace)
}

// Names reports whether gateways contain one; an empty list means the mesh.
func Names(gateways []string, one string) bool {
	return len(gateways) == 0 && one == MeshGateway || slices.Contains(gateways, one)
}

// Destinations yields every destination to which a VirtualService routes or mirrors.
func Destinations(v *networking.VirtualService) iter.Seq[*networking.Destination] {
	return func(yield func(*networking.Destination) bool) {
		for d := range destinations(v) {
			if !yield(d) {
				return
			}
		}
	}
}

// destinations yields the destinations with their paths.
func destinations(v *networking.VirtualService) iter.Seq2[*networking.Destination, string] {
	return func(yield func(*networking.Destination, string) bool) {
		for i, r := range v.Http {
			at := index("spec.http", i)
			for j, d := range r.Route {
				if d.GetDestination() != nil && !yield(d.Destination, index(at+".route", j)+".destination") {
					return
				}
			}
			if r.Mirror != nil && !yield(r.Mirror, at+".mirror") {
				return
			}
			for j, d := range r.Mirrors {
				if d.GetDestination() != nil && !yield(d.Destination, index(at+".mirrors", j)+".destination") {
					return
				}
			}
		}
		for i, r := range v.Tls {
			for j, d := range r.Route {
				if d.GetDestination() != nil &&
					!yield(d.Destination, index(index("spec.tls", i)+".route", j)+".destination") {
					return
				}
			}
		}
		for i, r := range v.Tcp {
			for j, d := range r.Route {
				if d.GetDestination() != nil &&
					!yield(d.Destination, index(index("spec.tcp", i)+".route", j)+".destination") {
					return
				}
			}
		}
	}
}
