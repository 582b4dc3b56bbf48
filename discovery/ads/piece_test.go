package ads

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
	big := func(name string) *resource {
		return encode(name, &corev3.Node{Id: name, Cluster: strings.Repeat("x", large)})
	}
	small := func(name string) *resource { return encode(name, &corev3.Node{Id: name}) }
	for _, c := range []struct {
		name      string
		resources []*resource
		pieces    [variants]int
	}{
		{"none", nil, [variants]int{0, 0}},
		{"small ones", []*resource{small("a"), small("b")}, [variants]int{1, 1}},
		{"a large one", []*resource{big("a")}, [variants]int{2, 3}},
		{"a large one between others", []*resource{small("a"), big("b"), small("c")}, [variants]int{3, 3}},
		{"large ones side by side", []*resource{big("a"), big("b"), absent("c")}, [variants]int{5, 5}},
	} {
		for v := range variants {
			p := &part{kind: eds, resources: c.resources}
			pieces, size := p.pieces(v)
			message := bytes.Join(pieces, nil)
			if len(pieces) != c.pieces[v] || size != len(message) {
				t.Errorf("%s, %s: %d pieces and %d bytes, want %d and %d", c.name, v, len(pieces), size, c.pieces[v], len(message))
			}
			for _, r := range c.resources {
				shared := 0
				for _, b := range pieces {
					if r.exists() && &b[0] == &r.content[0] {
						shared++
					}
				}
				if want := len(r.content) / large; shared != min(want, 1) {
					t.Errorf("%s, %s: %s is %d pieces of its own", c.name, v, r.name, shared)
				}
			}
			var decoded protoreflect.ProtoMessage = &discoveryv3.DiscoveryResponse{}
			if v == delta {
				decoded = &discoveryv3.DeltaDiscoveryResponse{}
			}
			if err := proto.Unmarshal(message, decoded); err != nil {
				t.Fatalf("%s, %s: %v", c.name, v, err)
			}
			for i, r := range c.resources {
				switch decoded := decoded.(type) {
				case *discoveryv3.DiscoveryResponse: // an empty assignment stands for one that does not exist
					if r.exists() && !bytes.HasSuffix(r.content, decoded.Resources[i].Value) {
						t.Errorf("%s: resource %d is another", c.name, i)
					}
				case *discoveryv3.DeltaDiscoveryResponse:
					if !r.exists() {
						if decoded.RemovedResources[0] != r.name {
							t.Errorf("%s: %v are removed", c.name, decoded.RemovedResources)
						}
					} else if decoded.Resources[i].Name != r.name || decoded.Resources[i].Version != r.version || !bytes.HasSuffix(r.content, decoded.Resources[i].Resource.Value) {
						t.Errorf("%s: resource %d is another", c.name, i)
					}
				}
			}
		}
	}
}
