package content

import (
	"maps"
	"slices"
)

// Question holds the inputs of an answer.
type Question struct {
	Had, Want *Set   // had is nil if it is not known
	Due       *Names // to be sent even if unchanged
	Variant   Variant
	Wildcard  bool
	Gone      bool // the answer names resources that no longer exist
}

// answerer finds the update for clients, each once.
type answerer struct {
	comparer *comparer
	answered memo[Question, *Update]
}

// Answer returns the update that bring a client from one set to another, nil if there are none.
func (a *answerer) Answer(q Question) *Update {
	if q.Variant == SotW && q.Want.Kind.Whole() {
		if q.Had != nil && q.Had.Version == q.Want.Version && q.Due == nil {
			return nil
		}
		return whole(q.Want)
	}
	var n *Update
	switch {
	case q.Had == q.Want && q.Due == nil:
		return nil
	case q.Had == nil:
		n = whole(q.Want)
	default:
		cost := 1
		if !q.Wildcard {
			cost += q.Want.Size() // names that the client named
		}
		n = a.answered.getFor(cost, q, func() *Update { return a.difference(q) })
	}
	if q.Variant == SotW && q.Want.Kind == SDS {
		n = n.existing()
	}
	if len(n.Lists) == 0 && (q.Had != nil || !q.Wildcard) { // the first answer to a wildcard is sent even if it is empty
		return nil
	}
	return n
}

func whole(s *Set) *Update {
	n := &Update{Lists: make([]*resourceList, 0, len(s.sets))}
	for _, l := range s.sets {
		n.Lists = append(n.Lists, &l.resourceList)
	}
	return n
}

func (a *answerer) difference(q Question) *Update {
	n := &Update{Lists: a.comparer.updated(q.Had, q.Want)}
	if q.Gone {
		n.Lists = append(n.Lists, a.comparer.gone(q.Had, q.Want, n.Lists)...)
	}
	var extra []*Resource
	for _, name := range q.Due.All() {
		r := q.Want.Find(name)
		if r == nil && q.Wildcard {
			r = absent(name)
		}
		if r != nil && !slices.ContainsFunc(n.Lists, func(p *resourceList) bool { return p.find(name) != nil }) {
			extra = append(extra, r)
		}
	}
	if len(extra) > 0 {
		n.Lists = append(n.Lists, &resourceList{kind: q.Want.Kind, Resources: extra})
	}
	return n
}

// Update is the content of a response.
type Update struct {
	Lists []*resourceList
}

// Size returns the number of resources.
func (n *Update) Size() (count int) {
	for _, p := range n.Lists {
		count += len(p.Resources)
	}
	return count
}

// existing returns n without names that do not exist, if the variant cannot express them: an Envoy refuses a response
// that lacks the secret that it requested, and keeps waiting without a response.
func (n *Update) existing() *Update {
	out := &Update{}
	for _, p := range n.Lists {
		list := slices.DeleteFunc(slices.Clone(p.Resources), func(r *Resource) bool { return !r.Exists() })
		switch len(list) {
		case 0:
		case len(p.Resources):
			out.Lists = append(out.Lists, p)
		default:
			out.Lists = append(out.Lists, &resourceList{kind: p.kind, Resources: list})
		}
	}
	return out
}

type selection struct {
	of    *Set
	names *Names
}

// Choice is a selection and its result.
type Choice struct {
	selection
	Got *Set // nil if there was none
}

// chooser selects resources by names, each selection once.
type chooser struct {
	comparer   *comparer
	selections memo[selection, *Set]
	kept       memo[selection, *Set]
}

// Choose returns the part of all that a subscription to names gets: for each name its resource, or an absent one. last
// is the result that the subscription got before.
func (c *chooser) Choose(all *Set, n *Names, last Choice) Choice {
	want := selection{all, n}
	if last.Got != nil && last.selection == want {
		return last
	}
	return Choice{want, c.selections.getFor(1+n.Len(), want, func() *Set {
		if again := c.chooseAgain(all, n, last); again != nil {
			return again
		}
		c.comparer.work.Looked.Add(int64(n.Len()))
		chosen, missing := make([]*Resource, 0, n.Len()), false
		for _, name := range n.All() {
			r := all.Find(name)
			if r == nil {
				r, missing = absent(name), true
			}
			chosen = append(chosen, r)
		}
		if !missing && len(chosen) == all.Size() && len(all.sets) == 1 {
			return all
		}
		return chosenSet(all.Kind, chosen)
	})}
}

// chooseAgain is choose for the case that, since the last choice by the same names, resources have changed and none was
// added or removed; else it returns nil.
func (c *chooser) chooseAgain(all *Set, n *Names, last Choice) *Set {
	if last.Got == nil || last.names != n || len(all.sets) != 1 || len(last.of.sets) != 1 {
		return nil
	}
	changed := c.comparer.change(last.of.sets[0], all.sets[0])
	if len(changed.fresh.Resources)+len(changed.gone.Resources) > 0 {
		return nil
	}
	if last.Got == last.of {
		return all
	}
	if len(last.Got.sets) != 1 {
		return nil
	}
	had := last.Got.sets[0]
	places := map[int]*Resource{}
	for _, r := range changed.updated.Resources {
		if at, ok := had.index(r.Name); ok {
			places[at] = r
		}
	}
	c.comparer.work.Looked.Add(int64(len(changed.updated.Resources)))
	now := had.patch(slices.Collect(maps.Keys(places)), func(at int) *Resource { return places[at] })
	if now == had {
		return last.Got
	}
	return combine(all.Kind, now)
}

// Keep returns the part of a set that remains when only names are subscribed.
func (c *chooser) Keep(had *Set, n *Names) *Set {
	return c.kept.getFor(1+n.Len(), selection{had, n}, func() *Set {
		var kept []*Resource
		for _, name := range n.All() {
			if r := had.Find(name); r != nil {
				kept = append(kept, r)
			}
		}
		if len(kept) == had.Size() {
			return had
		}
		return chosenSet(had.Kind, kept)
	})
}
