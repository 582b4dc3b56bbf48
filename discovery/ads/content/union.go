package content

// uniter adds sets to others, each pair once.
type uniter struct {
	comparer *comparer
	merger   *merger
	unions   memo[pair[*Set], *Set]
	missing  memo[pair[*layer], *layer]
	changed  memo[pair[*Set], *Names]
}

// Union returns want plus the resources of sent that want lacks; sent itself if want adds and changes nothing.
func (u *uniter) Union(want, sent *Set) *Set {
	return u.unions.Get(pair[*Set]{want, sent}, func() *Set {
		both := want.with(sent, u.minus)
		if both.Size() == sent.Size() && u.ChangedNames(sent, want) == nil {
			return sent
		}
		return both
	})
}

// minus returns the difference of two layers. For a layer common to many proxies it is computed once; a proxy's own
// layer is small.
func (u *uniter) minus(l, other *layer) *layer {
	if len(l.Resources) < manyResources {
		return l.minus(other)
	}
	return u.missing.getFor(1+l.cost(), pair[*layer]{l, other}, func() *layer { return l.minus(other) })
}

// ChangedNames returns the names of new and changed resources.
func (u *uniter) ChangedNames(from, to *Set) *Names {
	return u.changed.Get(pair[*Set]{from, to}, func() (list *Names) {
		for _, p := range u.comparer.updated(from, to) {
			list = u.merger.Merge(list, u.merger.namesIn(p), nil)
		}
		return list
	})
}
