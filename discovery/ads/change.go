package ads

import (
	"slices"
	"strings"
)

// change is the difference of two layers.
type change struct {
	told *part       // new and changed ones, and names that do not exist and were not asked for before
	gone []*resource // absent: those that existed
}

// compare returns the differences of two sets, layer by layer: those that both have are left out, so that one difference
// of what is common serves a thousand proxies with layers of their own.
func (sh *share) compare(from, to *set) []*change {
	before := without(from.layers, to.layers)
	after := without(to.layers, from.layers)
	out := make([]*change, max(len(before), len(after)))
	for i := range out {
		var x, y *layer
		if i < len(before) {
			x = before[i]
		}
		if i < len(after) {
			y = after[i]
		}
		out[i] = sh.change(x, y)
	}
	return out
}

func without(layers, others []*layer) []*layer {
	var out []*layer
	for _, l := range layers {
		if !slices.Contains(others, l) {
			out = append(out, l)
		}
	}
	return out
}

// told returns what is new and changed from one set to another.
func (sh *share) told(from, to *set) []*part {
	var out []*part
	for _, c := range sh.compare(from, to) {
		had := func(r *resource) bool { // in another layer
			old := from.find(r.name)
			return old != nil && same(old, r)
		}
		told := c.told
		if slices.ContainsFunc(told.resources, had) {
			told = &part{kind: told.kind, resources: slices.DeleteFunc(slices.Clone(told.resources), had)}
		}
		if len(told.resources) > 0 {
			out = append(out, told)
		}
	}
	return out
}

// change returns the difference of two layers; nil is an empty one.
func (sh *share) change(from, to *layer) *change {
	return sh.changes.getFor(1+from.cost()+to.cost(), pair[*layer]{from, to}, func() *change { return compareLayers(from, to) })
}

// compareLayers walks both layers in their order.
func compareLayers(from, to *layer) *change {
	var before, after []*resource
	if from != nil {
		before = from.resources
	}
	c := &change{told: &part{}}
	if to != nil {
		after, c.told.kind = to.resources, to.kind
	}
	for len(before) > 0 || len(after) > 0 {
		order := -1
		if len(before) > 0 && len(after) > 0 {
			order = strings.Compare(before[0].name, after[0].name)
		} else if len(before) == 0 {
			order = 1
		}
		switch {
		case order < 0:
			c.gone, before = c.leave(before[0]), before[1:]
		case order > 0:
			c.told.resources, after = append(c.told.resources, after[0]), after[1:]
		default:
			if r := after[0]; !same(before[0], r) && r.exists() {
				c.told.resources = append(c.told.resources, r)
			} else if !same(before[0], r) {
				c.gone = c.leave(before[0])
			}
			before, after = before[1:], after[1:]
		}
	}
	return c
}

func (c *change) leave(r *resource) []*resource {
	if r.exists() || r.unknown {
		return append(c.gone, absent(r.name))
	}
	return c.gone
}
