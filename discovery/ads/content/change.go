package content

import (
	"cmp"
	"slices"
	"strings"
)

// change is the difference of two resource sets. Its lists are sorted by name.
type change struct {
	updated *resourceList // new and changed resources, and names that do not exist and were not requested before
	fresh   *resourceList // those of updated that exist and did not exist before
	gone    *resourceList // absent: those that existed
}

// comparer compares resource sets, each pair once.
type comparer struct {
	work     *Work // the cost of the generation
	changes  memo[pair[*resourceSet], *change]
	lessened memo[less, *resourceList]
}

// step is the change from one resource set of a set to one of another set; either may be nil.
type step struct {
	*change
	from, to *resourceSet
}

// compare returns the differences of two sets, resource set by resource set. It leaves out resource sets that both sets
// have, so that one difference of the common resource sets serves a thousand proxies with resource sets of their own.
func (d *comparer) compare(from, to *Set) []step {
	before := without(from.sets, to.sets)
	after := without(to.sets, from.sets)
	out := make([]step, max(len(before), len(after)))
	for i := range out {
		s := &out[i]
		if i < len(before) {
			s.from = before[i]
		}
		if i < len(after) {
			s.to = after[i]
		}
		s.change = d.change(s.from, s.to)
	}
	return out
}

func without(sets, others []*resourceSet) []*resourceSet {
	var out []*resourceSet
	for _, l := range sets {
		if !slices.Contains(others, l) {
			out = append(out, l)
		}
	}
	return out
}

// updated returns the new and changed resources between two sets.
func (d *comparer) updated(from, to *Set) []*resourceList {
	var out []*resourceList
	for _, s := range d.compare(from, to) {
		updated := s.updated
		for _, l := range from.sets {
			if l != s.from {
				updated = d.less(less{updated, &l.resourceList, leaveSame})
			}
		}
		if len(updated.Resources) > 0 {
			out = append(out, updated)
		}
	}
	return out
}

// gone returns the resources that no longer exist, without those that the answer names anyway.
func (d *comparer) gone(from, to *Set, updated []*resourceList) (out []*resourceList) {
	for _, s := range d.compare(from, to) {
		gone := s.gone
		for _, l := range to.sets {
			if l != s.to {
				gone = d.less(less{gone, &l.resourceList, leaveExisting})
			}
		}
		for _, p := range updated {
			if p != s.updated { // which has none of them
				gone = d.less(less{gone, p, leaveNamed})
			}
		}
		if len(gone.Resources) > 0 {
			out = append(out, gone)
		}
	}
	return out
}

// less is a list, without those resources that another list has too and a rule leaves out.
type less struct {
	of, other *resourceList
	rule      leave
}

// leave selects which resources are left out of a list. It compares each with the resource of the same name of another
// list.
type leave int

const (
	leaveSame     leave = iota // those that are the same
	leaveExisting              // where the other exists
	leaveKnown                 // where the other exists, or is of unknown content
	leaveNamed                 // all
)

func (l leave) out(r, other *Resource) bool {
	switch l {
	case leaveSame:
		return Same(r, other)
	case leaveExisting:
		return other.Exists()
	case leaveKnown:
		return other.Exists() || other.unknown
	default:
		return true
	}
}

// less computes a list once where both lists are large, and so common to many proxies: after a restart with many
// changes a thousand proxies request the same. A proxy's own list is small: each time its names are looked up in the
// large list.
func (d *comparer) less(l less) *resourceList {
	if min(len(l.of.Resources), len(l.other.Resources)) < manyResources {
		return l.of.less(l.other, l.rule.out)
	}
	return d.lessened.getFor(1+len(l.of.Resources), l, func() *resourceList { return l.of.less(l.other, l.rule.out) })
}

// less returns p without the resources that another list has too and for which drop returns true. It returns p itself
// if no resource is left out.
func (p *resourceList) less(other *resourceList, drop func(r, other *Resource) bool) *resourceList {
	few, many := p, other
	if len(few.Resources) > len(many.Resources) {
		few, many = many, few
	}
	dropped := map[string]bool{}
	for _, one := range few.Resources { // a proxy's own are few, and those sent to all proxies may be a thousand
		two := many.find(one.Name)
		if two == nil {
			continue
		}
		if few == p && drop(one, two) || few != p && drop(two, one) {
			dropped[one.Name] = true
		}
	}
	if len(dropped) == 0 {
		return p
	}
	return &resourceList{kind: p.kind, Resources: slices.DeleteFunc(slices.Clone(p.Resources), func(r *Resource) bool { return dropped[r.Name] })}
}

// change returns the difference of two resource sets; nil is an empty one.
func (d *comparer) change(from, to *resourceSet) *change {
	return d.changes.getFor(1+from.cost()+to.cost(), pair[*resourceSet]{from, to}, func() *change { return compareSets(from, to, d.work) })
}

// compareSets walks both resource sets in their order. If the places where they differ are known, it compares only
// those.
func compareSets(from, to *resourceSet, w *Work) *change {
	var before, after []*Resource
	if from != nil {
		before = from.Resources
	}
	if to != nil {
		after = to.Resources
	}
	k := cmp.Or(from, to).kind
	c := &change{updated: &resourceList{kind: k}, fresh: &resourceList{kind: k}, gone: &resourceList{kind: k}}
	if from != nil && to != nil && to.since.Value() == from {
		for _, at := range to.places {
			c.compare(before[at], after[at])
		}
		w.Looked.Add(int64(len(to.places)))
		return c
	}
	w.Looked.Add(int64(max(len(before), len(after))))
	for len(before) > 0 || len(after) > 0 {
		order := -1
		if len(before) > 0 && len(after) > 0 {
			order = strings.Compare(before[0].Name, after[0].Name)
		} else if len(before) == 0 {
			order = 1
		}
		switch {
		case order < 0:
			c.leave(before[0])
			before = before[1:]
		case order > 0:
			c.come(after[0], !after[0].Exists())
			after = after[1:]
		default:
			c.compare(before[0], after[0])
			before, after = before[1:], after[1:]
		}
	}
	return c
}

// compare compares two resources of one name.
func (c *change) compare(before, after *Resource) {
	switch {
	case Same(before, after):
	case after.Exists():
		c.come(after, before.Exists() || before.unknown)
	default:
		c.leave(before)
	}
}

func (c *change) come(r *Resource, known bool) {
	c.updated.Resources = append(c.updated.Resources, r)
	if !known {
		c.fresh.Resources = append(c.fresh.Resources, r)
	}
}

func (c *change) leave(r *Resource) {
	if r.Exists() || r.unknown {
		c.gone.Resources = append(c.gone.Resources, absent(r.Name))
	}
}

// uniter adds sets to others, each pair once.
type uniter struct {
	comparer *comparer
	merger   *merger
	unions   memo[pair[*Set], *Set]
	missing  memo[pair[*resourceSet], *resourceSet]
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

// minus returns the difference of two resource sets. For a resource set common to many proxies it is computed once; a
// proxy's own resource set is small.
func (u *uniter) minus(l, other *resourceSet) *resourceSet {
	if len(l.Resources) < manyResources {
		return l.minus(other)
	}
	return u.missing.getFor(1+l.cost(), pair[*resourceSet]{l, other}, func() *resourceSet { return l.minus(other) })
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
