package model

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// What one namespace gives to the proxies of others costs memory and time in each of them, whether they use it or not. Of ServiceEntries,
// VirtualServices, Gateways and DestinationRules each namespace, other than the root namespace, has a share: one bound for each kind of cost. The oldest
// objects count first. What no longer fits is for proxies of its own namespace only. Services of registries do not count, but what
// DestinationRules and WorkloadEntries of their namespace add to them does: a service for which that does not fit is for its own
// namespace only, since others would call it without the rule's TLS settings.

// cost is what an object costs a proxy.
type cost int

const (
	listeners    cost = iota // port numbers, and addresses with a port of their own
	clusters                 // hosts × ports × subsets
	endpoints                // those of the clusters
	routes                   // hosts × ports × matches of routes, and hosts of Gateways' servers
	chains                   // of filters: servers of Gateways with TLS
	roots                    // of certificates: clusters that read a file of them
	places                   // of rings, by which clusters with consistent hashing choose endpoints
	instructions             // of regular expressions, for each time that Envoy has them
	bytes                    // of routes and policies, for each time that Envoy has them
	costs
)

// Bounds are what a namespace may give to others, or what something costs, by kind.
type Bounds [costs]int

// DefaultBounds returns the bounds of discovery/config/bounds.txt. They are at least twice what the benchmarks have in one namespace.
func DefaultBounds() Bounds {
	return Bounds{
		listeners: 300, clusters: 2500, endpoints: 25000, routes: 20000, chains: 2000, roots: 300, places: 2 << 20, instructions: 4 << 20, bytes: 16 << 20,
	}
}

func (c cost) String() string {
	return [costs]string{"listeners", "clusters", "endpoints", "routes", "chains", "roots", "places", "instructions", "bytes"}[c]
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

// times returns n times as much.
func (a Bounds) times(n int) Bounds {
	for c := range costs {
		a[c] *= n
	}
	return a
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
	spent   map[string]Bounds  // by namespace; with what is not given
	kept    map[keptKey]cost   // what is for its own namespace only, with the bound that it does not fit in
	listed  map[keptKey]int    // how often a proxy has the routes of a VirtualService: the ports of its hosts, or servers of Gateways
	entered map[serviceKey]int // endpoints of a registry's service that are WorkloadEntries
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

// exports reports whether other namespaces than its own may see a service that is not of the root namespace.
func (m *Mesh) exports(s *Service) bool {
	return s.Namespace != m.settings.RootNamespace() && !ownOnly(orDefault(s.ExportTo, m.settings.Config.GetDefaultServiceExportTo()), s.Namespace)
}

// declares reports whether some ServiceEntry declares a service.
func (m *Mesh) declares(s *Service) bool {
	return s.Registry == "" || slices.ContainsFunc(m.contested[s.key()], func(o *Service) bool { return o.Registry == "" })
}

// chargeOf returns what counts of a service, without listeners that other services may have as well. Of a registry's service it is what
// objects of its namespace add to it: DestinationRules, and WorkloadEntries that it selects.
func (m *Mesh) chargeOf(s *Service) Bounds {
	if !m.exports(s) {
		return Bounds{}
	}
	rules := m.lentRules(s)
	if m.declares(s) {
		return m.costOf(s, rules, len(s.Endpoints))
	}
	entered := m.given.entered[s.key()]
	if len(rules)+entered == 0 {
		return Bounds{}
	}
	return m.costOf(s, rules, len(s.Endpoints)).with(m.costOf(s, nil, len(s.Endpoints)-entered).times(-1))
}

// lentRules returns the DestinationRules of a service's namespace that proxies of others use for it: those of its host, and of each wider one
// as long as some namespace sees none of the narrower.
func (m *Mesh) lentRules(s *Service) (out []*Config[*networking.DestinationRule]) {
	rules := m.destinationRules[s.Namespace]
	if rules == nil {
		return nil
	}
	everybody := false
	for _, all := range rules.matching(s.Host) {
		for _, r := range all {
			exportTo := orDefault(r.Spec.ExportTo, m.settings.Config.GetDefaultDestinationRuleExportTo())
			if len(r.Spec.GetWorkloadSelector().GetMatchLabels()) == 0 && !ownOnly(exportTo, r.Namespace) {
				out = append(out, r)
				everybody = everybody || len(exportTo) == 0 || slices.Contains(exportTo, "*")
			}
		}
		if everybody {
			break
		}
	}
	return out
}

// costOf returns what a service with so many endpoints costs a proxy under DestinationRules.
func (m *Mesh) costOf(s *Service, rules []*Config[*networking.DestinationRule], n int) (out Bounds) {
	subsets, each, most := []*networking.Subset{nil}, 0, m.settings.bounds()[clusters]
	for _, r := range rules {
		size := Recall(m.memory, "weight of "+r.Key(), weighed[*networking.DestinationRule]{r.Spec}, weightOfPolicy)
		each = max(each, size.each)
		subsets = append(subsets, r.Spec.Subsets...)
		out[bytes] += size.subsets * len(s.Ports)
	}
	for _, name := range s.SubjectAltNames {
		each += len(name) + nameBytes
	}
	for _, e := range s.Endpoints {
		each += len(e.Locality.Region) + len(e.Locality.Zone) + len(e.Locality.SubZone)
	}
	for _, p := range s.Ports {
		switch {
		case p.Protocol.IsHTTP():
		case s.Headless:
			out[listeners] += n // one for each endpoint
		default:
			out[listeners] += max(0, len(s.Addresses)-1)
		}
	}
	out[clusters] = len(s.Ports) * len(subsets)
	out[endpoints] = out[clusters] * n
	out[bytes] += out[clusters] * each
	if out[clusters] > most || len(rules) == 0 {
		return out // too many are not given, whatever else they cost
	}
	for _, p := range s.Ports {
		// Which of the rules counts depends on the client: the costliest policy stands for all.
		var widest *networking.LoadBalancerSettings
		var reads *networking.ClientTLSSettings
		for _, r := range rules {
			balancer, tls := settle(r.Spec.TrafficPolicy, p.Number, nil, nil)
			if placesOfRing(balancer, s.Endpoints) > placesOfRing(widest, s.Endpoints) {
				widest = balancer
			}
			if readsRoots(tls) {
				reads = tls
			}
		}
		for _, subset := range subsets {
			balancer, tls := settle(subset.GetTrafficPolicy(), p.Number, widest, reads)
			if out[places] += placesOfRing(balancer, s.Endpoints); readsRoots(tls) {
				out[roots]++
			}
		}
	}
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
func (m *Mesh) costOfRule(v *Config[*networking.VirtualService]) Bounds {
	one := Recall(m.memory, "weight of "+v.Key(), weighed[*networking.VirtualService]{v.Spec}, weightOfRule)
	return one.times(m.given.listed[keptKey{v.Kind, v.Namespace, v.Name}])
}

// indexEntered counts the WorkloadEntries that services of registries select.
func (m *Mesh) indexEntered() {
	m.given.entered = map[serviceKey]int{}
	for _, w := range m.entries {
		for _, s := range m.selecting[w.Namespace] {
			if s.Registry != "" && s.takes(w) {
				m.given.entered[s.key()]++
			}
		}
	}
}

// indexGiven decides what is for proxies of its own namespace only.
func (m *Mesh) indexGiven() {
	m.given = given{spent: map[string]Bounds{}, listed: map[keptKey]int{}}
	m.indexEntered()
	root, most := m.settings.RootNamespace(), m.settings.bounds()[routes]
	of := map[string][]giver{}
	for _, s := range m.services {
		cost := m.chargeOf(s)
		if cost == (Bounds{}) {
			continue
		}
		g := giver{keptKey: keptKey{"", s.Namespace, s.Host}, meta: Meta{Namespace: s.Namespace, Name: s.Name, Created: s.Created}, cost: cost}
		if m.declares(s) {
			for _, p := range s.Ports {
				g.ports = append(g.ports, p.Number)
			}
		} else if rules := m.lentRules(s); len(rules) > 0 {
			g.meta = rules[len(rules)-1].Meta
		}
		of[s.Namespace] = append(of[s.Namespace], g)
	}
	over := spread{mesh: m, entries: map[string]*hostWeights{}, gateways: map[string]*hostWeights{}}
	for _, o := range m.gateways {
		over.gateways[o.Namespace+"/"+o.Name] = serversOf(o.Spec)
		if o.Namespace == root {
			continue
		}
		g := giver{keptKey: keptKey{o.Kind, o.Namespace, o.Name}, meta: o.Meta}
		for _, s := range o.Spec.Servers {
			g.ports = append(g.ports, s.GetPort().GetNumber())
			g.cost[routes] += len(s.Hosts)
			if g.cost[bytes] += proto.Size(s); s.Tls != nil && !s.Tls.HttpsRedirect {
				g.cost[chains]++
			}
		}
		of[o.Namespace] = append(of[o.Namespace], g)
	}
	for _, v := range m.virtualServices {
		if m.countsRule(v) {
			key := keptKey{v.Kind, v.Namespace, v.Name}
			m.given.listed[key] = over.listed(v, most)
			of[v.Namespace] = append(of[v.Namespace], giver{keptKey: key, meta: v.Meta, cost: m.costOfRule(v)})
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
