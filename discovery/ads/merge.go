package ads

import (
	"slices"
)

// merging is a list of names, with names to add and names to remove.
type merging struct{ list, add, drop *names }

// merger makes lists of names, each once.
type merger struct {
	interner *interner
	work     *work
	merged   memo[merging, *names]
	lists    memo[*part, *names]
}

// merge returns the names of list and add, without the names of drop that are not in add.
func (m *merger) merge(list, add, drop *names) *names {
	if add == nil && drop == nil {
		return list
	}
	if list == nil {
		return add
	}
	return m.merged.getFor(1+list.len()+add.len(), merging{list, add, drop}, func() *names {
		m.work.looked.Add(int64(list.len() + add.len()))
		kept := slices.DeleteFunc(slices.Concat(list.all(), add.all()), func(name string) bool {
			return drop.has(name) && !add.has(name)
		})
		slices.Sort(kept)
		star := add.everything() || list.everything() && !drop.everything()
		return m.interner.with(slices.Compact(kept), star)
	})
}

// named is n without the star.
func (m *merger) named(n *names) *names {
	if n.everything() {
		return m.interner.of(n.list)
	}
	return n
}

// common returns the names that both lists have.
func (m *merger) common(a, b *names) *names {
	var list []string
	for _, name := range b.all() {
		if a.has(name) {
			list = append(list, name)
		}
	}
	return m.interner.of(list)
}

// namesIn returns the names of a part. The list of a part that many proxies get is made once.
func (m *merger) namesIn(p *part) *names {
	list := func() *names {
		names := make([]string, 0, len(p.resources))
		for _, r := range p.resources {
			names = append(names, r.name)
		}
		return m.namesOf(names)
	}
	if len(p.resources) < manyResources {
		return list()
	}
	return m.lists.getFor(1+len(p.resources), p, list)
}

// namesOf returns names in any order as a list.
func (m *merger) namesOf(list []string) *names {
	slices.Sort(list)
	return m.interner.of(slices.Compact(list))
}
