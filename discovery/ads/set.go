package ads

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// set holds all resources of one kind that concern a stream, immutable. Resources that many proxies share and a proxy's
// own ones are separate layers, so that a thousand sets cost little more than one. A name is in one layer only.
type set struct {
	kind    kind
	layers  []*layer
	version string
}

// newSet takes resources that are sorted by name.
func newSet(k kind, resources []*resource) *set { return stack(k, newLayer(k, resources)) }

// setOf is newSet for resources in any order, which it sorts.
func setOf(k kind, resources []*resource) *set {
	slices.SortFunc(resources, byName)
	return newSet(k, resources)
}

// chosenSet is newSet for resources that a client named.
func chosenSet(k kind, resources []*resource) *set {
	l := newLayer(k, resources)
	l.chosen = true
	return stack(k, l)
}

func stack(k kind, layers ...*layer) *set {
	layers = slices.DeleteFunc(layers, func(l *layer) bool { return len(l.resources) == 0 })
	versions := make([]byte, 0, 4*(1+sha256.Size)) // for as many layers as most sets have, so that it does not allocate
	for _, l := range layers {
		versions = append(append(versions, 0), l.version[:]...)
	}
	version := sha256.Sum256(versions)
	return &set{kind: k, layers: layers, version: hex.EncodeToString(version[:8])}
}

// find returns the resource of that name, or nil. The set may be nil.
func (s *set) find(name string) *resource {
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

func (s *set) size() (n int) {
	for _, l := range s.layers {
		n += len(l.resources)
	}
	return n
}

// all returns every resource, by layer and name.
func (s *set) all() []*resource {
	out := make([]*resource, 0, s.size())
	for _, l := range s.layers {
		out = append(out, l.resources...)
	}
	return out
}

// with returns s plus the resources of others whose names s does not have. minus returns the resources that a layer has
// and another one lacks.
func (s *set) with(others *set, minus func(l, other *layer) *layer) *set {
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
		if len(l.resources) > 0 {
			layers = append(layers, l)
		}
	}
	if len(layers) == len(s.layers) {
		return s
	}
	return stack(s.kind, layers...)
}

// largest returns the layer with the most resources, nil if there is none.
func (s *set) largest() (largest *layer) {
	for _, l := range s.layers {
		if largest == nil || len(l.resources) > len(largest.resources) {
			largest = l
		}
	}
	return largest
}
