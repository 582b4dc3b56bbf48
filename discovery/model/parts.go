package model

import (
	"hash/maphash"
	"maps"
	"math/bits"
)

// parts is a map that does not change once it is made: with returns a copy with other values for some keys, which shares
// with it the parts of the map that have none of them. For one key of n it copies about the square root of n.
type parts[K comparable, V any] struct {
	seed maphash.Seed
	list []map[K]V // a power of two of them
	size int       // the number of keys
}

// partsFor returns an empty map with room for n keys, to which put adds them.
func partsFor[K comparable, V any](n int) parts[K, V] {
	p := parts[K, V]{seed: maphash.MakeSeed(), list: make([]map[K]V, 1<<(bits.Len(uint(n))/2))}
	for i := range p.list {
		p.list[i] = make(map[K]V, n/len(p.list))
	}
	return p
}

// crowded reports whether the map has grown to many times what it was made for.
func (p parts[K, V]) crowded() bool { return p.size > 16*len(p.list)*len(p.list) }

func (p parts[K, V]) at(k K) int { return int(maphash.Comparable(p.seed, k) & uint64(len(p.list)-1)) }

func (p parts[K, V]) get(k K) (none V) {
	if len(p.list) == 0 {
		return none
	}
	return p.list[p.at(k)][k]
}

// put sets a value while the map is made.
func (p *parts[K, V]) put(k K, v V) {
	part := p.list[p.at(k)]
	before := len(part)
	part[k] = v
	p.size += len(part) - before
}

// with returns a copy in which each of keys has the value that value returns for its value before, or none for false.
func (p parts[K, V]) with(keys []K, value func(K, V) (V, bool)) parts[K, V] {
	switch {
	case len(keys) == 0:
		return p
	case len(p.list) == 0:
		p = partsFor[K, V](len(keys))
	case p.crowded():
		wider := partsFor[K, V](p.size)
		for _, part := range p.list {
			for k, v := range part {
				wider.put(k, v)
			}
		}
		p = wider
	}
	p.list = append([]map[K]V(nil), p.list...)
	own := map[int]bool{}
	for _, k := range keys {
		i := p.at(k)
		if !own[i] {
			own[i], p.list[i] = true, maps.Clone(p.list[i])
		}
		part := p.list[i]
		before := len(part)
		if v, keep := value(k, part[k]); keep {
			part[k] = v
		} else {
			delete(part, k)
		}
		p.size += len(part) - before
	}
	return p
}
