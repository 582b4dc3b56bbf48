package xds

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"
)

// named is an element of a list to sort: its name, and its place in the list.
type named struct {
	name string
	at   int
}

// sortByName returns a list sorted by name, with the first of those that have one name.
//
// Names such as outbound|80|v1|a.default are mostly in order already among those of one port and subset, because the services
// are. So it sorts each of these runs by itself; one that is in order costs a comparison for each name.
func sortByName[T any](list []T, name func(T) string) []T {
	runs := map[string][]named{}
	for i, m := range list {
		n := name(m)
		run := n[:strings.LastIndexByte(n, '|')+1]
		runs[run] = append(runs[run], named{n, i})
	}
	order := make([]named, 0, len(list))
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		sortNamed(runs[run])
		order = append(order, runs[run]...)
	}
	sortNamed(order) // one run's names may lie between those of another
	out := make([]T, 0, len(list))
	for i, n := range order {
		if i == 0 || n.name != order[i-1].name {
			out = append(out, list[n.at])
		}
	}
	return out
}

// sortNamed sorts what is not sorted already.
func sortNamed(all []named) {
	before := func(i, j int) bool {
		return cmp.Or(strings.Compare(all[i].name, all[j].name), all[i].at-all[j].at) < 0
	}
	if !sort.SliceIsSorted(all, before) {
		sort.Slice(all, before)
	}
}
