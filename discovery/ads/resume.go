package ads

import (
	"iter"
	"slices"
	"strings"
)

// resumption is the list of resources of one layer that clients report, in any order. Proxies that reconnect report the
// same, except for the few resources of their own: so their answer is computed and encoded once for all of them.
type resumption struct {
	now      *layer // nil for none
	wildcard bool
	entries  int
	sum      uint64 // of the hashes of the entries
}

// resumer finds the resources that clients report, each list once.
type resumer struct {
	resumed memo[resumption, *layer]
}

// resume returns the set that a client reports to have; want itself if it has all of that.
func (rs *resumer) resume(want *set, had versions, wildcard bool) *set {
	common := want.largest()
	own := make([][]entry, len(want.layers))
	of := func(e entry) int {
		return slices.IndexFunc(want.layers, func(l *layer) bool { return l != common && l.find(e.name) != nil })
	}
	key := resumption{now: common, wildcard: wildcard}
	for e := range had.all() {
		if i := of(e); i >= 0 {
			own[i] = append(own[i], e)
			continue
		}
		key.entries++
		key.sum += e.hash
	}
	rest := func(yield func(entry) bool) {
		for e := range had.all() {
			if of(e) < 0 && !yield(e) {
				return
			}
		}
	}
	layers := slices.Clone(want.layers)
	for i, l := range layers {
		if l != common {
			layers[i] = resumed(want.kind, l, slices.Values(own[i]), wildcard)
		}
	}
	shared := rs.resumed.getFor(1+key.entries, key, func() *layer { return resumed(want.kind, common, rest, wildcard) })
	if common == nil {
		layers = append(layers, shared)
	} else {
		layers[slices.Index(layers, common)] = shared
	}
	if slices.Equal(layers, want.layers) {
		return want
	}
	return stack(want.kind, layers...)
}

// resumed returns the resources of a layer that a client has; now itself if it has all of them. A resource that it has
// with another content, or that no longer exists, is only a name.
func resumed(k kind, now *layer, entries iter.Seq[entry], wildcard bool) *layer {
	if now == nil {
		now = &layer{}
	}
	var had []*resource
	for e := range entries {
		switch r := now.find(e.name); {
		case r != nil && r.exists() && r.version == e.version:
			had = append(had, r)
		case r != nil && k == sds && !r.exists(): // a secret that no longer exists stays in use
			had = append(had, r)
		case r != nil && r.exists():
			had = append(had, &resource{name: r.name, unknown: true})
		case wildcard:
			had = append(had, &resource{name: strings.Clone(e.name), unknown: true}) // not all that the request reports
		}
	}
	if had = distinct(had); slices.Equal(had, now.resources) {
		return now
	}
	l := newLayer(k, had)
	l.chosen = true
	return l
}

// distinct sorts the resources of a client. The content of a name that the client reports in different versions is not
// known.
func distinct(had []*resource) []*resource {
	slices.SortFunc(had, byName)
	out := had[:0]
	for _, r := range had {
		switch last := len(out) - 1; {
		case last < 0 || out[last].name != r.name:
			out = append(out, r)
		case out[last] != r:
			out[last] = &resource{name: r.name, unknown: true}
		}
	}
	return out
}
