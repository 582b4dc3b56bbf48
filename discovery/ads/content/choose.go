package content

import (
	"maps"
	"slices"
)

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
		if !missing && len(chosen) == all.Size() && len(all.layers) == 1 {
			return all
		}
		return chosenSet(all.Kind, chosen)
	})}
}

// chooseAgain is choose for the case that, since the last choice by the same names, resources have changed and none was
// added or removed; else it returns nil.
func (c *chooser) chooseAgain(all *Set, n *Names, last Choice) *Set {
	if last.Got == nil || last.names != n || len(all.layers) != 1 || len(last.of.layers) != 1 {
		return nil
	}
	changed := c.comparer.change(last.of.layers[0], all.layers[0])
	if len(changed.fresh.Resources)+len(changed.gone.Resources) > 0 {
		return nil
	}
	if last.Got == last.of {
		return all
	}
	if len(last.Got.layers) != 1 {
		return nil
	}
	had := last.Got.layers[0]
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
	return stack(all.Kind, now)
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
