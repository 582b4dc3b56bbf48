package catalog

import (
	"iter"
	"maps"
	"slices"
)

// index holds sets of values by key.
type index[K, V comparable] map[K]set[V]

// set is a list as long as it is short: nearly all sets have one value, for which a map would take ten times the room.
type set[V comparable] struct {
	few  []V
	many map[V]bool // in the place of few
}

const maxFew = 16

func (i index[K, V]) add(key K, value V) {
	s := i[key]
	switch {
	case s.many != nil:
		s.many[value] = true
		return
	case slices.Contains(s.few, value):
		return
	case len(s.few) < maxFew:
		s.few = append(s.few, value)
	default:
		s.many = map[V]bool{value: true}
		for _, v := range s.few {
			s.many[v] = true
		}
		s.few = nil
	}
	i[key] = s
}

func (i index[K, V]) remove(key K, value V) {
	s := i[key]
	if s.many != nil {
		delete(s.many, value)
	} else if at := slices.Index(s.few, value); at >= 0 {
		s.few = slices.Delete(s.few, at, at+1)
		i[key] = s
	}
	if len(s.few)+len(s.many) == 0 {
		delete(i, key)
	}
}

// of yields the values of a key, in no particular order.
func (i index[K, V]) of(key K) iter.Seq[V] {
	if s := i[key]; s.many == nil {
		return slices.Values(s.few)
	}
	return maps.Keys(i[key].many)
}
