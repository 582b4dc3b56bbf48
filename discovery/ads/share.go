package ads

import (
	"maps"
	"slices"
)

// Each cache is bounded, so that hostile subscriptions cost little more than their own streams.
const (
	maxShared  = 1 << 13
	maxChosen  = 1 << 19 // names, in all selections and in the values made from them
	maxMerged  = 1 << 18 // names, of all subscriptions that grew
	maxDivided = 1 << 15 // kB, of route configurations with a refused part
)

// merging is a list of names, with names to add and names to remove.
type merging struct{ list, add, drop *names }

// share computes results from sets that streams need, each once for all streams: it is pure functions with a cache. It
// lives as long as a generation; a stream must not hold it longer than that.
type share struct {
	interner   *interner
	work       *work // the cost of its generation
	selections memo[selection, *set]
	kept       memo[selection, *set]
	unions     memo[pair[*set], *set]
	changes    memo[pair[*layer], *change]
	missing    memo[pair[*layer], *layer]
	changed    memo[pair[*set], *names]
	additions  memo[pair[*set], *names]
	named      memo[naming, bool]
	divisions  memo[*resource, *divided]
	lists      memo[*part, *names]
	resumed    memo[resumption, *layer]
	merged     memo[merging, *names]
	answers    memo[question, *news]
	lessened   memo[less, *part]
}

type selection struct {
	of    *set
	names *names
}

type pair[T any] struct{ from, to T }

// naming is the key for whether a part contains one of the names.
type naming struct {
	in    *part
	names *names
}

func newShare(in *interner) *share {
	sh := &share{interner: in, work: &work{}}
	sh.selections.limit, sh.kept.limit, sh.merged.limit = maxChosen, maxChosen, maxMerged
	sh.changes.limit, sh.missing.limit, sh.answers.limit = maxChosen, maxChosen, maxChosen
	sh.divisions.limit, sh.lessened.limit = maxDivided, maxChosen
	sh.lists.limit, sh.resumed.limit = maxMerged, maxChosen
	sh.unions.limit, sh.changed.limit, sh.additions.limit, sh.named.limit = maxShared, maxShared, maxShared, maxShared
	return sh
}

// choice is a selection and its result.
type choice struct {
	selection
	got *set // nil if there was none
}

// choose returns the part of all that a subscription to names gets: for each name its resource, or an absent one. last
// is the result that the subscription got before.
func (sh *share) choose(all *set, n *names, last choice) *set {
	return sh.selections.getFor(1+n.len(), selection{all, n}, func() *set {
		if again := sh.chooseAgain(all, n, last); again != nil {
			return again
		}
		sh.work.looked.Add(int64(n.len()))
		chosen, missing := make([]*resource, 0, n.len()), false
		for _, name := range n.all() {
			r := all.find(name)
			if r == nil {
				r, missing = absent(name), true
			}
			chosen = append(chosen, r)
		}
		if !missing && len(chosen) == all.size() && len(all.layers) == 1 {
			return all
		}
		return chosenSet(all.kind, chosen)
	})
}

// chooseAgain is choose for the case that, since the last choice by the same names, resources have changed and none was
// added or removed; else it returns nil.
func (sh *share) chooseAgain(all *set, n *names, last choice) *set {
	if last.got == nil || last.names != n || len(all.layers) != 1 || len(last.of.layers) != 1 {
		return nil
	}
	c := sh.change(last.of.layers[0], all.layers[0])
	if len(c.fresh.resources)+len(c.gone.resources) > 0 {
		return nil
	}
	if last.got == last.of {
		return all
	}
	if len(last.got.layers) != 1 {
		return nil
	}
	had := last.got.layers[0]
	changed := map[int]*resource{}
	for _, r := range c.updated.resources {
		if at, ok := had.index(r.name); ok {
			changed[at] = r
		}
	}
	sh.work.looked.Add(int64(len(c.updated.resources)))
	now := had.patch(slices.Collect(maps.Keys(changed)), func(at int) *resource { return changed[at] })
	if now == had {
		return last.got
	}
	return stack(all.kind, now)
}

// keep returns the part of a set that remains when only names are subscribed.
func (sh *share) keep(had *set, n *names) *set {
	return sh.kept.getFor(1+n.len(), selection{had, n}, func() *set {
		var kept []*resource
		for _, name := range n.all() {
			if r := had.find(name); r != nil {
				kept = append(kept, r)
			}
		}
		if len(kept) == had.size() {
			return had
		}
		return chosenSet(had.kind, kept)
	})
}

// merge returns the names of list and add, without the names of drop that are not in add.
func (sh *share) merge(list, add, drop *names) *names {
	if add == nil && drop == nil {
		return list
	}
	if list == nil {
		return add
	}
	return sh.merged.getFor(1+list.len()+add.len(), merging{list, add, drop}, func() *names {
		kept := slices.DeleteFunc(slices.Concat(list.all(), add.all()), func(name string) bool {
			return drop.has(name) && !add.has(name)
		})
		slices.Sort(kept)
		star := add.everything() || list.everything() && !drop.everything()
		return sh.interner.with(slices.Compact(kept), star)
	})
}

// common returns the names that both lists have.
func (sh *share) common(a, b *names) *names {
	var list []string
	for _, name := range b.all() {
		if a.has(name) {
			list = append(list, name)
		}
	}
	return sh.interner.of(list)
}

// union returns want plus the resources of sent that want lacks; sent itself if want adds and changes nothing.
func (sh *share) union(want, sent *set) *set {
	return sh.unions.get(pair[*set]{want, sent}, func() *set {
		both := want.with(sent, sh.minus)
		if both.size() == sent.size() && sh.changedNames(sent, want) == nil {
			return sent
		}
		return both
	})
}

// manyResources is the number of resources of a layer from which its difference to another layer is cached.
const manyResources = 16

// minus returns the difference of two layers. For a layer common to many proxies it is computed once; a proxy's own
// layer is small.
func (sh *share) minus(l, other *layer) *layer {
	if len(l.resources) < manyResources {
		return l.minus(other)
	}
	return sh.missing.getFor(1+l.cost(), pair[*layer]{l, other}, func() *layer { return l.minus(other) })
}

// changedNames returns the names of new and changed resources.
func (sh *share) changedNames(from, to *set) *names {
	return sh.changed.get(pair[*set]{from, to}, func() (list *names) {
		for _, p := range sh.updated(from, to) {
			list = sh.merge(list, sh.namesIn(p), nil)
		}
		return list
	})
}

// namesIn returns the names of a part. The list of a part that many proxies get is made once.
func (sh *share) namesIn(p *part) *names {
	list := func() *names {
		names := make([]string, 0, len(p.resources))
		for _, r := range p.resources {
			names = append(names, r.name)
		}
		return sh.namesOf(names)
	}
	if len(p.resources) < manyResources {
		return list()
	}
	return sh.lists.getFor(1+len(p.resources), p, list)
}

// namesOf returns names in any order as a list.
func (sh *share) namesOf(list []string) *names {
	slices.Sort(list)
	return sh.interner.of(slices.Compact(list))
}

// question holds the inputs of an answer.
type question struct {
	had, want *set   // had is nil if it is not known
	due       *names // to be sent even if unchanged
	variant   variant
	wildcard  bool
	gone      bool // the answer names resources that no longer exist
}

// answer returns the news that bring a client from one set to another, nil if there are none.
func (sh *share) answer(q question) *news {
	if q.variant == sotw && q.want.kind.whole() {
		if q.had != nil && q.had.version == q.want.version && q.due == nil {
			return nil
		}
		return whole(q.want)
	}
	var n *news
	switch {
	case q.had == q.want && q.due == nil:
		return nil
	case q.had == nil:
		n = whole(q.want)
	default:
		cost := 1
		if !q.wildcard {
			cost += q.want.size() // names that the client named
		}
		n = sh.answers.getFor(cost, q, func() *news { return sh.difference(q) })
	}
	if q.variant == sotw && q.want.kind == sds {
		n = n.existing()
	}
	if len(n.parts) == 0 && (q.had != nil || !q.wildcard) { // the first answer to a wildcard is sent even if it is empty
		return nil
	}
	return n
}

func whole(s *set) *news {
	n := &news{parts: make([]*part, 0, len(s.layers))}
	for _, l := range s.layers {
		n.parts = append(n.parts, &l.part)
	}
	return n
}

func (sh *share) difference(q question) *news {
	n := &news{parts: sh.updated(q.had, q.want)}
	if q.gone {
		n.parts = append(n.parts, sh.gone(q.had, q.want, n.parts)...)
	}
	var extra []*resource
	for _, name := range q.due.all() {
		r := q.want.find(name)
		if r == nil && q.wildcard {
			r = absent(name)
		}
		if r != nil && !slices.ContainsFunc(n.parts, func(p *part) bool { return p.find(name) != nil }) {
			extra = append(extra, r)
		}
	}
	if len(extra) > 0 {
		n.parts = append(n.parts, &part{kind: q.want.kind, resources: extra})
	}
	return n
}
