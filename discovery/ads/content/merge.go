package content

import (
	"slices"
)

// merging is a list of names, with names to add and names to remove.
type merging struct{ list, add, drop *Names }

// merger makes lists of names, each once.
type merger struct {
	Interner *Interner
	work     *Work
	merged   memo[merging, *Names]
	lists    memo[*part, *Names]
}

// Merge returns the names of list and add, without the names of drop that are not in add.
func (m *merger) Merge(list, add, drop *Names) *Names {
	if add == nil && drop == nil {
		return list
	}
	if list == nil {
		return add
	}
	return m.merged.getFor(1+list.Len()+add.Len(), merging{list, add, drop}, func() *Names {
		m.work.Looked.Add(int64(list.Len() + add.Len()))
		kept := slices.DeleteFunc(slices.Concat(list.All(), add.All()), func(name string) bool {
			return drop.Has(name) && !add.Has(name)
		})
		slices.Sort(kept)
		star := add.Everything() || list.Everything() && !drop.Everything()
		return m.Interner.With(slices.Compact(kept), star)
	})
}

// Named is n without the star.
func (m *merger) Named(n *Names) *Names {
	if n.Everything() {
		return m.Interner.Of(n.list)
	}
	return n
}

// Common returns the names that both lists have.
func (m *merger) Common(a, b *Names) *Names {
	var list []string
	for _, name := range b.All() {
		if a.Has(name) {
			list = append(list, name)
		}
	}
	return m.Interner.Of(list)
}

// namesIn returns the names of a part. The list of a part that many proxies get is made once.
func (m *merger) namesIn(p *part) *Names {
	list := func() *Names {
		names := make([]string, 0, len(p.Resources))
		for _, r := range p.Resources {
			names = append(names, r.Name)
		}
		return m.namesOf(names)
	}
	if len(p.Resources) < manyResources {
		return list()
	}
	return m.lists.getFor(1+len(p.Resources), p, list)
}

// namesOf returns names in any order as a list.
func (m *merger) namesOf(list []string) *Names {
	slices.Sort(list)
	return m.Interner.Of(slices.Compact(list))
}

// Form returns r with these virtual hosts, r itself if there are too many such forms.
func (m *merger) Form(r *Resource, d *divided, bodies [][]byte) *Resource {
	if made := m.Interner.forms.of(r, d, bodies); made != nil {
		return made
	}
	return r
}
