package content

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Set holds all resources of one kind that concern a stream, immutable. Resources that many proxies share and a proxy's
// own ones are separate layers, so that a thousand sets cost little more than one. A name is in one layer only.
type Set struct {
	Kind    Kind
	layers  []*layer
	Version string
}

// NewSet takes resources that are sorted by name.
func NewSet(k Kind, resources []*Resource) *Set { return stack(k, newLayer(k, resources)) }

// SetOf is NewSet for resources in any order, which it sorts.
func SetOf(k Kind, resources []*Resource) *Set {
	slices.SortFunc(resources, byName)
	return NewSet(k, resources)
}

// chosenSet is NewSet for resources that a client named.
func chosenSet(k Kind, resources []*Resource) *Set {
	l := newLayer(k, resources)
	l.chosen = true
	return stack(k, l)
}

func stack(k Kind, layers ...*layer) *Set {
	layers = slices.DeleteFunc(layers, func(l *layer) bool { return len(l.Resources) == 0 })
	versions := make([]byte, 0, 4*(1+sha256.Size)) // for as many layers as most sets have, so that it does not allocate
	for _, l := range layers {
		versions = append(append(versions, 0), l.version[:]...)
	}
	version := sha256.Sum256(versions)
	return &Set{Kind: k, layers: layers, Version: hex.EncodeToString(version[:8])}
}

// Find returns the resource of that name, or nil. The set may be nil.
func (s *Set) Find(name string) *Resource {
	if s == nil {
		return nil
	}
	for _, l := range s.layers {
		if r := l.find(name); r != nil {
			return r
		}
	}
	return nil
}

// Size returns the number of resources, with names that do not exist.
func (s *Set) Size() (n int) {
	for _, l := range s.layers {
		n += len(l.Resources)
	}
	return n
}

// All returns every resource, by layer and name.
func (s *Set) All() []*Resource {
	out := make([]*Resource, 0, s.Size())
	for _, l := range s.layers {
		out = append(out, l.Resources...)
	}
	return out
}

// with returns s plus the resources of others whose names s does not have. minus returns the resources that a layer has
// and another one lacks.
func (s *Set) with(others *Set, minus func(l, other *layer) *layer) *Set {
	if others == nil || s == others {
		return s
	}
	layers := slices.Clone(s.layers)
	for _, l := range others.layers {
		if slices.Contains(s.layers, l) {
			continue
		}
		for _, own := range s.layers {
			l = minus(l, own)
		}
		if len(l.Resources) > 0 {
			layers = append(layers, l)
		}
	}
	if len(layers) == len(s.layers) {
		return s
	}
	return stack(s.Kind, layers...)
}

// largest returns the layer with the most resources, nil if there is none.
func (s *Set) largest() (largest *layer) {
	for _, l := range s.layers {
		if largest == nil || len(l.Resources) > len(largest.Resources) {
			largest = l
		}
	}
	return largest
}
