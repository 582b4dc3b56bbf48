package ads

import (
	"maps"
	"slices"
)

type selection struct {
	of    *set
	names *names
}

// choice is a selection and its result.
type choice struct {
	selection
	got *set // nil if there was none
}

// chooser selects resources by names, each selection once.
type chooser struct {
	comparer   *comparer
	selections memo[selection, *set]
	kept       memo[selection, *set]
}

// choose returns the part of all that a subscription to names gets: for each name its resource, or an absent one. last
// is the result that the subscription got before.
func (c *chooser) choose(all *set, n *names, last choice) choice {
	want := selection{all, n}
	if last.got != nil && last.selection == want {
		return last
	}
	return choice{want, c.selections.getFor(1+n.len(), want, func() *set {
		if again := c.chooseAgain(all, n, last); again != nil {
			return again
		}
		c.comparer.work.looked.Add(int64(n.len()))
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
	})}
}

// chooseAgain is choose for the case that, since the last choice by the same names, resources have changed and none was
// added or removed; else it returns nil.
func (c *chooser) chooseAgain(all *set, n *names, last choice) *set {
	if last.got == nil || last.names != n || len(all.layers) != 1 || len(last.of.layers) != 1 {
		return nil
	}
	changed := c.comparer.change(last.of.layers[0], all.layers[0])
	if len(changed.fresh.resources)+len(changed.gone.resources) > 0 {
		return nil
	}
	if last.got == last.of {
		return all
	}
	if len(last.got.layers) != 1 {
		return nil
	}
	had := last.got.layers[0]
	places := map[int]*resource{}
	for _, r := range changed.updated.resources {
		if at, ok := had.index(r.name); ok {
			places[at] = r
		}
	}
	c.comparer.work.looked.Add(int64(len(changed.updated.resources)))
	now := had.patch(slices.Collect(maps.Keys(places)), func(at int) *resource { return places[at] })
	if now == had {
		return last.got
	}
	return stack(all.kind, now)
}

// keep returns the part of a set that remains when only names are subscribed.
func (c *chooser) keep(had *set, n *names) *set {
	return c.kept.getFor(1+n.len(), selection{had, n}, func() *set {
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
