package ads

// uniter adds sets to others, each pair once.
type uniter struct {
	comparer *comparer
	merger   *merger
	unions   memo[pair[*set], *set]
	missing  memo[pair[*layer], *layer]
	changed  memo[pair[*set], *names]
}

// union returns want plus the resources of sent that want lacks; sent itself if want adds and changes nothing.
func (u *uniter) union(want, sent *set) *set {
	return u.unions.get(pair[*set]{want, sent}, func() *set {
		both := want.with(sent, u.minus)
		if both.size() == sent.size() && u.changedNames(sent, want) == nil {
			return sent
		}
		return both
	})
}

// minus returns the difference of two layers. For a layer common to many proxies it is computed once; a proxy's own
// layer is small.
func (u *uniter) minus(l, other *layer) *layer {
	if len(l.resources) < manyResources {
		return l.minus(other)
	}
	return u.missing.getFor(1+l.cost(), pair[*layer]{l, other}, func() *layer { return l.minus(other) })
}

// changedNames returns the names of new and changed resources.
func (u *uniter) changedNames(from, to *set) *names {
	return u.changed.get(pair[*set]{from, to}, func() (list *names) {
		for _, p := range u.comparer.updated(from, to) {
			list = u.merger.merge(list, u.merger.namesIn(p), nil)
		}
		return list
	})
}
