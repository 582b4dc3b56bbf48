package ads

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// Equal lists are one value, however they are written; a list that is gone is forgotten.
func TestInternerSharesNames(t *testing.T) {
	in := newInterner()
	read := func(list ...string) *names {
		return scan(t, in, &discoveryv3.DiscoveryRequest{ResourceNames: list, TypeUrl: clusterType}).names
	}
	one := read("a", "b", "c")
	if read("a", "b", "c") != one || read("c", "a", "b", "a") != one || in.of([]string{"a", "b", "c"}) != one {
		t.Error("equal lists are different values")
	}
	if read("a", "b") == one || read() != nil || !read("*").star || read("*").len() != 0 {
		t.Error("different lists are one value, or the star is a name")
	}
	runtime.KeepAlive(one)
	until(t, "the lists to be forgotten", func() bool {
		runtime.GC()
		in.mu.Lock()
		defer in.mu.Unlock()
		return len(in.live) == 0
	})
}

// What a stream says again is recognised without being parsed, and only then.
func TestRequestRepeatsNames(t *testing.T) {
	in := newInterner()
	r := &request{intern: in}
	read := func(names ...string) []string {
		data, err := proto.Marshal(&discoveryv3.DiscoveryRequest{
			VersionInfo: "v", ResourceNames: names, TypeUrl: endpointType, ResponseNonce: "1",
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.read(data); err != nil {
			t.Fatal(err)
		}
		if r.typeURL != endpointType || r.nonce != "1" || r.version != "v" {
			t.Errorf("read %+v", r)
		}
		got := r.names
		if got.len() > r.likely.len() {
			r.likely = got
		}
		return slices.Clone(got.all())
	}
	for _, list := range [][]string{{"a", "b"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b"}, {"a", "b", "c", "d"}, {"z", "a"}, {}} {
		want := slices.Sorted(slices.Values(list))
		if got := read(list...); !slices.Equal(got, want) {
			t.Errorf("read %v, want %v", got, want)
		}
	}
}

// Whatever a client sends: an error or names, no panic, and no more than is allowed.
func FuzzRequest(f *testing.F) {
	for _, m := range []proto.Message{
		&discoveryv3.DiscoveryRequest{Node: envoyNode(), TypeUrl: clusterType, ResourceNames: []string{"a", "*", "b"}, ErrorDetail: refused("x")},
		&discoveryv3.DeltaDiscoveryRequest{
			Node: envoyNode(), TypeUrl: endpointType, ResponseNonce: "1", ResourceNamesSubscribe: []string{"a"},
			ResourceNamesUnsubscribe: []string{"b"}, InitialResourceVersions: map[string]string{"a": "1"},
		},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		in := newInterner()
		for v := range variants {
			r := &request{variant: v, intern: in}
			if r.read(first) != nil {
				continue
			}
			likely := &request{variant: v, intern: in, likely: r.names}
			plain := &request{variant: v, intern: in}
			a, b := likely.read(second), plain.read(second)
			if (a == nil) != (b == nil) || a == nil && fmt.Sprint(likely.names) != fmt.Sprint(plain.names) {
				t.Errorf("with a likely list: %v %v, without: %v %v", likely.names, a, plain.names, b)
			}
			for range r.versions() {
			}
			_, _ = r.parseNode()
		}
	})
}
