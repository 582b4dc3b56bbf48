package ads

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
)

// A layer that was made from another by replacing resources equals one that was made from all resources, and so does
// the difference. A resource that a client has with unknown content is sent even if it is not at one of the changed
// places.
func TestLayersWithOthersInSomePlaces(t *testing.T) {
	var resources []*resource
	for i := range 3*runLength + 5 {
		resources = append(resources, newResource(fmt.Sprintf("r%04d", i), "type", []byte("1")))
	}
	base := newLayer(eds, resources)
	for name, places := range map[string][]int{"none": nil, "the first": {0}, "the last": {len(resources) - 1}, "some, one twice": {150, 3, 64, 3}} {
		var w work
		next := base.patch(places, func(at int) *resource { return newResource(resources[at].name, "type", []byte("2")) })
		anew := newLayer(eds, next.resources)
		if next.version != anew.version {
			t.Errorf("%s: another version", name)
		}
		if (next == base) != (len(places) == 0) {
			t.Errorf("%s: the same layer: %t", name, next == base)
		}
		got, want := compareLayers(base, next, &w), compareLayers(base, anew, &w)
		for i, parts := range [][2]*part{{got.updated, want.updated}, {got.fresh, want.fresh}, {got.gone, want.gone}} {
			if !slices.Equal(parts[0].resources, parts[1].resources) {
				t.Errorf("%s: difference %d is another", name, i)
			}
		}
		other := newLayer(eds, append(slices.Clone(resources[:9]), &resource{name: resources[9].name, unknown: true}))
		if updated := compareLayers(other, next, &w).updated; updated.find(resources[9].name) == nil {
			t.Errorf("%s: what is not known is not told", name)
		}
	}
	if same := base.patch([]int{5}, func(at int) *resource { return resources[at] }); same != base {
		t.Error("the same resource makes another layer")
	}
}

// A layer that was made from another one has the same version as one that was made from nothing.
func TestLayersFromOthers(t *testing.T) {
	of := func(names ...int) (out []*resource) {
		for _, n := range names {
			out = append(out, newResource(fmt.Sprintf("r%04d", n), "type", []byte(strconv.Itoa(n))))
		}
		return out
	}
	var all []int
	for i := range 3*runLength + 5 {
		all = append(all, i)
	}
	base := newLayer(cds, of(all...))
	changed := slices.Clone(base.resources)
	changed[runLength+1] = newResource(changed[runLength+1].name, "type", []byte("changed"))
	lists := map[string][]*resource{
		"the same": base.resources, "none": nil, "one changed": changed, "the last is gone": base.resources[:len(all)-1], "the first is gone": base.resources[1:],
		"a whole run is gone": base.resources[:3*runLength], "one more": append(slices.Clone(base.resources), of(9999)...), "part of a run": base.resources[:7],
	}
	for name, list := range lists {
		want := newLayer(cds, list)
		for other, from := range lists {
			if got := newLayerFrom(newLayer(cds, from), cds, list); got.version != want.version {
				t.Errorf("%s, from %s: another version", name, other)
			}
		}
		if name != "the same" && want.version == base.version {
			t.Errorf("%s: the version is that of all", name)
		}
	}
}
