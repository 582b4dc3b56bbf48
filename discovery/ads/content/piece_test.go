package content

import (
	"bytes"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

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
			p := &part{kind: EDS, Resources: c.resources}
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
