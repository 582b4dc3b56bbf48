package main

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// A proxy whose stream ends before it has everything asks for the same kinds again, as Envoy does: the server does not send again
// what the proxy says that it has, so no answer would make it ask.
func TestAStreamAsksAgain(t *testing.T) {
	for name, delta := range map[string]bool{"delta": true, "state of the world": false} {
		t.Run(name, func(t *testing.T) {
			p := &proxy{fleet: &fleet{numbers: numbersOf(delta), delta: delta, know: &knowledge{}}}
			asked := func() (kinds []int) {
				for _, request := range p.out {
					fields(request, func(n protowire.Number, value []byte) {
						if n == p.fleet.typeURL {
							kinds = append(kinds, kindOf(value))
						}
					})
				}
				return kinds
			}
			p.begin()
			if got := asked(); len(got) != 1 || got[0] != cds {
				t.Fatalf("a new proxy asks for kinds %v, want %d alone", got, cds)
			}
			p.read(response(t, delta, &clusterv3.Cluster{Name: "a", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}}))
			if got := asked(); len(got) != 1 || got[0] != eds {
				t.Fatalf("after its clusters it asks for kinds %v, want %d", got, eds)
			}
			p.begin()
			if got := asked(); len(got) != 2 || got[0] != cds || got[1] != eds {
				t.Errorf("on its next stream it asks for kinds %v, want %d and %d", got, cds, eds)
			}
		})
	}
}

// response returns a response with one cluster.
func response(t *testing.T, delta bool, c *clusterv3.Cluster) []byte {
	t.Helper()
	packed, err := anypb.New(c)
	if err != nil {
		t.Fatal(err)
	}
	resource, err := proto.Marshal(packed)
	if err != nil {
		t.Fatal(err)
	}
	if delta {
		resource = field(field(nil, 1, "v"), 2, string(resource))
	}
	return field(field(field(nil, 2, string(resource)), 4, typeURLs[cds]), 5, "1")
}
