package xds

import (
	"cmp"
	"maps"
	"slices"
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
		if !slices.IsSortedFunc(runs[run], named.compare) {
			slices.SortFunc(runs[run], named.compare)
		}
		order = append(order, runs[run]...)
	}
	if !slices.IsSortedFunc(order, named.compare) { // one run's names lie between those of another
		slices.SortFunc(order, named.compare)
	}
	out := make([]T, 0, len(list))
	for i, n := range order {
		if i == 0 || n.name != order[i-1].name {
			out = append(out, list[n.at])
		}
	}
	return out
}

func (n named) compare(other named) int {
	return cmp.Or(strings.Compare(n.name, other.name), n.at-other.at)
}
