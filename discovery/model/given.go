package model

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// What one namespace gives to the proxies of others costs memory and time in each of them, whether they use it or not. Of ServiceEntries,
// VirtualServices and Gateways each namespace, other than the root namespace, has a share: one bound for each kind of cost. The oldest
// objects count first. What no longer fits is for proxies of its own namespace only. Services of registries do not count.

// cost is what an object costs a proxy.
type cost int

const (
	listeners cost = iota // port numbers, and addresses with a port of their own
	clusters              // hosts × ports × subsets
	endpoints             // those of the clusters
	routes                // hosts × ports × routes, and hosts of Gateways' servers
	costs
)

// Bounds are what a namespace may give to others, or what something costs: listeners, clusters, endpoints, routes.
type Bounds [costs]int

// DefaultBounds returns the bounds of discovery/config/bounds.txt. They are at least twice what the benchmarks have in one namespace.
func DefaultBounds() Bounds {
	return Bounds{listeners: 300, clusters: 2500, endpoints: 25000, routes: 20000}
}

func (c cost) String() string {
	return [costs]string{"listeners", "clusters", "endpoints", "routes"}[c]
}

// All yields each kind with its number.
func (a Bounds) All() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for c := range costs {
			if !yield(c.String(), a[c]) {
				return
			}
		}
	}
}

// with returns the sum.
func (a Bounds) with(b Bounds) Bounds {
	for c := range costs {
		a[c] += b[c]
	}
	return a
}

// beyond returns the first kind of cost that is beyond its bound.
func (a Bounds) beyond(bound Bounds) (cost, bool) {
	for c := range costs {
		if a[c] > bound[c] {
			return c, true
		}
	}
	return 0, false
}

// given is what namespaces give to others.
type given struct {
	spent map[string]Bounds // by namespace; with what is not given
	kept  map[keptKey]cost  // what is for its own namespace only, with the bound that it does not fit in
}

// keptKey is the key of an object or, for a service, of its host in its namespace.
type keptKey struct{ kind, namespace, name string }

// keptFrom reports whether what has a key is for proxies of its own namespace only, and from is another one.
func (m *Mesh) keptFrom(kind, namespace, name, from string) bool {
	if len(m.given.kept) == 0 || namespace == from {
		return false
	}
	_, kept := m.given.kept[keptKey{kind, namespace, name}]
	return kept
}

// giver is one object or service that counts.
type giver struct {
	keptKey
	meta  Meta
	ports []uint32 // listeners that others may have as well
	cost  Bounds
}

// counts reports whether a service counts: some ServiceEntry declares it, outside of the root namespace, and others may see it.
func (m *Mesh) counts(s *Service) bool {
	return s.Namespace != m.settings.RootNamespace() && !ownOnly(orDefault(s.ExportTo, m.settings.Config.GetDefaultServiceExportTo()), s.Namespace) &&
		(s.Registry == "" || slices.ContainsFunc(m.contested[s.key()], func(o *Service) bool { return o.Registry == "" }))
}

// costOf returns what a service costs a proxy, without listeners that other services may have as well.
func (m *Mesh) costOf(s *Service) (out Bounds) {
	subsets := 1
	if rules := m.destinationRules[s.Namespace]; rules != nil {
		for _, all := range rules.matching(s.Host) {
			for _, r := range all {
				subsets += len(r.Spec.Subsets)
			}
			break
		}
	}
	for _, p := range s.Ports {
		if !p.Protocol.IsHTTP() {
			out[listeners] += max(0, len(s.Addresses)-1)
		}
	}
	out[clusters] = len(s.Ports) * subsets
	out[endpoints] = out[clusters] * len(s.Endpoints)
	return out
}

// countsRule reports the same of a VirtualService.
func (m *Mesh) countsRule(v *Config[*networking.VirtualService]) bool {
	return v.Namespace != m.settings.RootNamespace() &&
		!ownOnly(orDefault(v.Spec.ExportTo, m.settings.Config.GetDefaultVirtualServiceExportTo()), v.Namespace)
}

// ownOnly reports whether what is exported so is seen by its own namespace at most.
func ownOnly(exportTo []string, own string) bool {
	return len(exportTo) > 0 && !slices.ContainsFunc(exportTo, func(to string) bool { return to != "." && to != "~" && to != own })
}

// costOfRule returns what a VirtualService costs.
func (m *Mesh) costOfRule(v *networking.VirtualService) (out Bounds) {
	for _, host := range v.Hosts {
		ports := 1
		if s := m.Service(host); s != nil {
			ports = max(1, len(s.Ports))
		}
		out[routes] += ports * max(1, len(v.Http)+len(v.Tls)+len(v.Tcp))
	}
	return out
}

// indexGiven decides what is for proxies of its own namespace only.
func (m *Mesh) indexGiven() {
	m.given = given{spent: map[string]Bounds{}}
	root := m.settings.RootNamespace()
	of := map[string][]giver{}
	for _, s := range m.services {
		if m.counts(s) {
			g := giver{keptKey: keptKey{"", s.Namespace, s.Host}, meta: Meta{Namespace: s.Namespace, Name: s.Name, Created: s.Created}, cost: m.costOf(s)}
			for _, p := range s.Ports {
				g.ports = append(g.ports, p.Number)
			}
			of[s.Namespace] = append(of[s.Namespace], g)
		}
	}
	for _, v := range m.virtualServices {
		if m.countsRule(v) {
			of[v.Namespace] = append(of[v.Namespace], giver{keptKey: keptKey{v.Kind, v.Namespace, v.Name}, meta: v.Meta, cost: m.costOfRule(v.Spec)})
		}
	}
	for _, o := range m.gateways {
		if o.Namespace != root {
			g := giver{keptKey: keptKey{o.Kind, o.Namespace, o.Name}, meta: o.Meta}
			for _, s := range o.Spec.Servers {
				g.ports = append(g.ports, s.GetPort().GetNumber())
				g.cost[routes] += len(s.Hosts)
			}
			of[o.Namespace] = append(of[o.Namespace], g)
		}
	}
	for namespace, all := range of {
		m.share(namespace, all)
	}
}

// share gives what fits within the bounds of a namespace.
func (m *Mesh) share(namespace string, all []giver) {
	slices.SortFunc(all, func(a, b giver) int {
		return cmp.Or(a.meta.Older(b.meta), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	bound := m.settings.bounds()
	var used, spent Bounds
	open := map[uint32]bool{}
	for _, g := range all {
		want, fresh := g.cost, map[uint32]bool{}
		for _, p := range g.ports {
			if !open[p] {
				fresh[p] = true
			}
		}
		want[listeners] += len(fresh)
		spent = spent.with(want)
		if over, is := used.with(want).beyond(bound); is {
			if m.given.kept == nil {
				m.given.kept = map[keptKey]cost{}
			}
			m.given.kept[g.keptKey] = over
			continue
		}
		used = used.with(want)
		maps.Copy(open, fresh)
	}
	m.given.spent[namespace] = spent
}

// respend records that something of a namespace costs more or less than before. It returns false if that may change what is given: a kind of
// cost that is within its bound, with all that is kept too, decides nothing.
func (m *Mesh) respend(namespace string, was, now Bounds) bool {
	if was == now {
		return true
	}
	spent, bound, same := m.given.spent[namespace], m.settings.bounds(), true
	for c := range costs {
		before := spent[c]
		spent[c] += now[c] - was[c]
		same = same && (spent[c] == before || max(spent[c], before) <= bound[c])
	}
	m.given.spent = maps.Clone(m.given.spent)
	m.given.spent[namespace] = spent
	return same
}

// bounds returns the bounds of what a namespace gives.
func (s Settings) bounds() Bounds {
	if s.Bounds != nil {
		return *s.Bounds
	}
	return DefaultBounds()
}

// keptAtHome adds a note to each object of which something is for proxies of its own namespace only.
func (j *judge) keptAtHome() {
	m := j.mesh
	if len(m.given.kept) == 0 {
		return
	}
	told := func(meta Meta, path, what string, over cost) {
		j.note(TooMuch, meta, path, "is %sfor proxies of namespace %s only: all that this namespace gives to proxies of others is more than %d %s, of which older objects go first; "+
			"want exportTo of \".\" for what only this namespace needs, or objects of the root namespace", what, meta.Namespace, m.settings.bounds()[over], over)
	}
	for _, o := range m.used() {
		if over, kept := m.given.kept[keptKey{o.Kind, o.Namespace, o.Name}]; kept {
			told(o.Meta, "spec", "", over)
		}
		entry, is := o.Spec.(*networking.ServiceEntry)
		if !is {
			continue
		}
		first, n, why := "", 0, cost(0)
		for _, host := range entry.Hosts {
			if over, kept := m.given.kept[keptKey{"", o.Namespace, m.settings.Domain.Qualify(host, o.Namespace)}]; kept {
				if n++; first == "" {
					first, why = host, over
				}
			}
		}
		if n > 0 {
			told(o.Meta, "spec.hosts", fmt.Sprintf("with %d of its hosts, such as %s, ", n, first), why)
		}
	}
}
