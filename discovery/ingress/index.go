package ingress

import (
	"slices"
)

// index finds what a change affects. It holds the served Ingresses only.
type index struct {
	hosts    map[string][]*ingress      // those that name a host, the oldest first
	below    map[string]map[string]bool // the hosts below a wildcard
	services map[Name]map[user]bool     // the users of a Service
	secrets  map[Name]map[user]bool

	encrypted map[string]map[string]bool // by namespace: its hosts whose certificate can be served
	unread    map[string]map[string]bool // likewise: those of which that is not known yet
	routed    map[string]map[string]bool // by namespace: its hosts that a rule names
}

// user is a part of an Ingress that uses another object: that of a host, "" for its default backend.
type user struct {
	ingress Name
	host    string
}

func newIndex() index {
	return index{
		map[string][]*ingress{},
		map[string]map[string]bool{},
		map[Name]map[user]bool{},
		map[Name]map[user]bool{},
		map[string]map[string]bool{},
		map[string]map[string]bool{},
		map[string]map[string]bool{},
	}
}

// set adds a value to the set of a key, or removes it.
func set[K, V comparable](sets map[K]map[V]bool, key K, value V, is bool) {
	switch {
	case is && sets[key] == nil:
		sets[key] = map[V]bool{value: true}
	case is:
		sets[key][value] = true
	default:
		if delete(sets[key], value); len(sets[key]) == 0 {
			delete(sets, key)
		}
	}
}

// enlist adds a used Ingress of a served class, and retire removes it.
func (t *Table) enlist(i *ingress) {
	for _, name := range i.order {
		all := t.index.hosts[name]
		at, _ := slices.BinarySearchFunc(all, i, (*ingress).older)
		t.index.hosts[name] = slices.Insert(all, at, i)
	}
	t.record(i, true)
}

func (t *Table) retire(i *ingress) {
	for _, name := range i.order {
		t.index.hosts[name] = slices.DeleteFunc(t.index.hosts[name], func(o *ingress) bool { return o == i })
		if len(t.index.hosts[name]) == 0 {
			delete(t.index.hosts, name)
		}
	}
	t.record(i, false)
}

// record records what a served Ingress uses, or removes it, and marks its hosts.
func (t *Table) record(i *ingress, is bool) {
	set(t.ours, i.store, i.name(), is)
	t.pending.faults[i.name()] = true
	for _, name := range i.order {
		t.pending.hosts[name] = true
		if wildcard := above(name); wildcard != "" {
			set(t.index.below, wildcard, name, len(t.index.hosts[name]) > 0)
		}
		p := i.parts[name]
		for _, one := range p.paths {
			if s := one.backend.Service; s != nil {
				set(t.index.services, Name{i.Namespace, s.Name}, user{i.name(), name}, is)
			}
		}
		for _, c := range p.certificates {
			set(t.index.secrets, c.secret, user{i.name(), name}, is)
		}
	}
	if b := i.Spec.DefaultBackend; b != nil && b.Service != nil {
		service := Name{i.Namespace, b.Service.Name}
		set(t.index.services, service, user{i.name(), ""}, is)
		for _, name := range i.order {
			if i.parts[name].fallback != nil {
				set(t.index.services, service, user{i.name(), name}, is)
			}
		}
	}
}
