package content

import (
	"iter"
	"slices"
	"strings"
)

// resumption is the list of resources of one resource set that clients report, in any order. Proxies that reconnect
// report the same, except for the few resources of their own: so their answer is computed and encoded once for all of
// them.
type resumption struct {
	now      *resourceSet // nil for none
	wildcard bool
	entries  int
	sum      uint64 // of the hashes of the entries
}

// resumer finds the resources that clients report, each list once.
type resumer struct {
	resumed memo[resumption, *resourceSet]
}

// Resume returns the set that a client reports to have; want itself if it has all of that.
func (rs *resumer) Resume(want *Set, had Versions, wildcard bool) *Set {
	common := want.largest()
	own := make([][]entry, len(want.sets))
	of := func(e entry) int {
		return slices.IndexFunc(want.sets, func(l *resourceSet) bool { return l != common && l.find(e.Name) != nil })
	}
	key := resumption{now: common, wildcard: wildcard}
	for e := range had.All() {
		if i := of(e); i >= 0 {
			own[i] = append(own[i], e)
			continue
		}
		key.entries++
		key.sum += e.hash
	}
	rest := func(yield func(entry) bool) {
		for e := range had.All() {
			if of(e) < 0 && !yield(e) {
				return
			}
		}
	}
	sets := slices.Clone(want.sets)
	for i, l := range sets {
		if l != common {
			sets[i] = resumed(want.Kind, l, slices.Values(own[i]), wildcard)
		}
	}
	shared := rs.resumed.getFor(1+key.entries, key, func() *resourceSet { return resumed(want.Kind, common, rest, wildcard) })
	if common == nil {
		sets = append(sets, shared)
	} else {
		sets[slices.Index(sets, common)] = shared
	}
	if slices.Equal(sets, want.sets) {
		return want
	}
	return combine(want.Kind, sets...)
}

// resumed returns the resources of a resource set that a client has; now itself if it has all of them. A resource that
// it has with another content, or that no longer exists, is only a name.
func resumed(k Kind, now *resourceSet, entries iter.Seq[entry], wildcard bool) *resourceSet {
	if now == nil {
		now = &resourceSet{}
	}
	var had []*Resource
	for e := range entries {
		switch r := now.find(e.Name); {
		case r != nil && r.Exists() && r.Version == e.Version:
			had = append(had, r)
		case r != nil && k == SDS && !r.Exists(): // a secret that no longer exists stays in use
			had = append(had, r)
		case r != nil && r.Exists():
			had = append(had, &Resource{Name: r.Name, unknown: true})
		case wildcard:
			had = append(had, &Resource{Name: strings.Clone(e.Name), unknown: true}) // not all that the request reports
		}
	}
	if had = distinct(had); slices.Equal(had, now.Resources) {
		return now
	}
	l := newResourceSet(k, had)
	l.chosen = true
	return l
}

// distinct sorts the resources of a client. The content of a name that the client reports in different versions is not
// known.
func distinct(had []*Resource) []*Resource {
	slices.SortFunc(had, byName)
	out := had[:0]
	for _, r := range had {
		switch last := len(out) - 1; {
		case last < 0 || out[last].Name != r.Name:
			out = append(out, r)
		case out[last] != r:
			out[last] = &Resource{Name: r.Name, unknown: true}
		}
	}
	return out
}
