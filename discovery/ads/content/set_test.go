package content

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A resource set that was made from another by replacing resources equals one that was made from all resources, and so does
// the difference. A resource that a client has with unknown content is sent even if it is not at one of the changed
// places.
func TestLayersWithOthersInSomePlaces(t *testing.T) {
	var resources []*Resource
	for i := range 3*runLength + 5 {
		resources = append(resources, newResource(fmt.Sprintf("r%04d", i), "type", []byte("1")))
	}
	base := newResourceSet(EDS, resources)
	for name, places := range map[string][]int{"none": nil, "the first": {0}, "the last": {len(resources) - 1}, "some, one twice": {150, 3, 64, 3}} {
		var w Work
		next := base.patch(places, func(at int) *Resource { return newResource(resources[at].Name, "type", []byte("2")) })
		anew := newResourceSet(EDS, next.Resources)
		if next.version != anew.version {
			t.Errorf("%s: another version", name)
		}
		if (next == base) != (len(places) == 0) {
			t.Errorf("%s: the same layer: %t", name, next == base)
		}
		got, want := compareSets(base, next, &w), compareSets(base, anew, &w)
		for i, parts := range [][2]*resourceList{{got.updated, want.updated}, {got.fresh, want.fresh}, {got.gone, want.gone}} {
			if !slices.Equal(parts[0].Resources, parts[1].Resources) {
				t.Errorf("%s: difference %d is another", name, i)
			}
		}
		other := newResourceSet(EDS, append(slices.Clone(resources[:9]), &Resource{Name: resources[9].Name, unknown: true}))
		if updated := compareSets(other, next, &w).updated; updated.find(resources[9].Name) == nil {
			t.Errorf("%s: what is not known is not told", name)
		}
	}
	if same := base.patch([]int{5}, func(at int) *Resource { return resources[at] }); same != base {
		t.Error("the same resource makes another layer")
	}
}

// A resource set that was made from another one has the same version as one that was made from nothing.
func TestLayersFromOthers(t *testing.T) {
	of := func(names ...int) (out []*Resource) {
		for _, n := range names {
			out = append(out, newResource(fmt.Sprintf("r%04d", n), "type", []byte(strconv.Itoa(n))))
		}
		return out
	}
	var all []int
	for i := range 3*runLength + 5 {
		all = append(all, i)
	}
	base := newResourceSet(CDS, of(all...))
	changed := slices.Clone(base.Resources)
	changed[runLength+1] = newResource(changed[runLength+1].Name, "type", []byte("changed"))
	lists := map[string][]*Resource{
		"the same": base.Resources, "none": nil, "one changed": changed, "the last is gone": base.Resources[:len(all)-1], "the first is gone": base.Resources[1:],
		"a whole run is gone": base.Resources[:3*runLength], "one more": append(slices.Clone(base.Resources), of(9999)...), "part of a run": base.Resources[:7],
	}
	for name, list := range lists {
		want := newResourceSet(CDS, list)
		for other, from := range lists {
			if got := newResourceSetFrom(newResourceSet(CDS, from), CDS, list); got.version != want.version {
				t.Errorf("%s, from %s: another version", name, other)
			}
		}
		if name != "the same" && want.version == base.version {
			t.Errorf("%s: the version is that of all", name)
		}
	}
}

// A large resource is in memory once: a response holds it by reference, between pieces of its smaller neighbours.
func TestLargeResourcesAreSentFromWhereTheyLie(t *testing.T) {
	big := func(name string) *Resource {
		return Encode(name, &corev3.Node{Id: name, Cluster: strings.Repeat("x", large)})
	}
	small := func(name string) *Resource { return Encode(name, &corev3.Node{Id: name}) }
	for _, c := range []struct {
		name      string
		resources []*Resource
		pieces    [Variants]int
	}{
		{"none", nil, [Variants]int{0, 0}},
		{"small ones", []*Resource{small("a"), small("b")}, [Variants]int{1, 1}},
		{"a large one", []*Resource{big("a")}, [Variants]int{2, 3}},
		{"a large one between others", []*Resource{small("a"), big("b"), small("c")}, [Variants]int{3, 3}},
		{"large ones side by side", []*Resource{big("a"), big("b"), absent("c")}, [Variants]int{5, 5}},
	} {
		for v := range Variants {
			p := &resourceList{kind: EDS, Resources: c.resources}
			pieces, size := p.Pieces(v)
			message := bytes.Join(pieces, nil)
			if len(pieces) != c.pieces[v] || size != len(message) {
				t.Errorf("%s, %s: %d pieces and %d bytes, want %d and %d", c.name, v, len(pieces), size, c.pieces[v], len(message))
			}
			for _, r := range c.resources {
				shared := 0
				for _, b := range pieces {
					if r.Exists() && &b[0] == &r.Content[0] {
						shared++
					}
				}
				if want := len(r.Content) / large; shared != min(want, 1) {
					t.Errorf("%s, %s: %s is %d pieces of its own", c.name, v, r.Name, shared)
				}
			}
			var decoded protoreflect.ProtoMessage = &discoveryv3.DiscoveryResponse{}
			if v == Delta {
				decoded = &discoveryv3.DeltaDiscoveryResponse{}
			}
			if err := proto.Unmarshal(message, decoded); err != nil {
				t.Fatalf("%s, %s: %v", c.name, v, err)
			}
			for i, r := range c.resources {
				switch decoded := decoded.(type) {
				case *discoveryv3.DiscoveryResponse: // an empty assignment stands for one that does not exist
					if r.Exists() && !bytes.HasSuffix(r.Content, decoded.Resources[i].Value) {
						t.Errorf("%s: resource %d is another", c.name, i)
					}
				case *discoveryv3.DeltaDiscoveryResponse:
					if !r.Exists() {
						if decoded.RemovedResources[0] != r.Name {
							t.Errorf("%s: %v are removed", c.name, decoded.RemovedResources)
						}
					} else if decoded.Resources[i].Name != r.Name || decoded.Resources[i].Version != r.Version || !bytes.HasSuffix(r.Content, decoded.Resources[i].Resource.Value) {
						t.Errorf("%s: resource %d is another", c.name, i)
					}
				}
			}
		}
	}
}
