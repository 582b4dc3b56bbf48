package model

import (
	"maps"
	"slices"
)

// Bounds of the labels of an endpoint whose registry has none.
const (
	MaxLabels = 64
	MaxLabel  = 256 // bytes of a key, and of a value
)

// BoundLabels returns labels within the bounds, as a copy, and how many it leaves out: those with a long key or value,
// and the last ones by key of too many.
func BoundLabels(labels map[string]string) (out map[string]string, omitted int) {
	if len(labels) == 0 {
		return nil, 0
	}
	out = make(map[string]string, min(len(labels), MaxLabels))
	fits := func(text string) bool { return len(text) <= MaxLabel }
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if len(out) == MaxLabels || !fits(key) || !fits(labels[key]) {
			omitted++
			continue
		}
		out[key] = labels[key]
	}
	return out, omitted
}
