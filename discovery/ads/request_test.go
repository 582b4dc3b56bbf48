package ads

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Equal lists are one value, in any encoding; a list without references is dropped.
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

// Names that a stream repeats are recognised without parsing, and only repeated ones.
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

// A name may have any length, also from 128 bytes on, where the bytes of the length are not text themselves.
func TestRequestTakesLongNames(t *testing.T) {
	for _, size := range []int{1, 90, 127, 128, 200, 255, 256, 300, 20000} {
		name := strings.Repeat("é", size/2) + strings.Repeat("a", size%2)
		for v, m := range [variants]proto.Message{
			sotw: &discoveryv3.DiscoveryRequest{ResourceNames: []string{"a", name}},
			delta: &discoveryv3.DeltaDiscoveryRequest{
				ResourceNamesSubscribe: []string{"a", name}, ResourceNamesUnsubscribe: []string{name},
				InitialResourceVersions: map[string]string{name: "0123456789abcdef"},
			},
		} {
			r := &request{variant: variant(v), intern: newInterner()}
			data, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.read(data); err != nil || !r.names.has(name) {
				t.Errorf("%s, a name of %d bytes: read %d names, error %v", variant(v), size, r.names.len(), err)
			}
		}
	}
}

// A name that is not UTF-8 would be a part of answers, which protobuf does not allow.
func TestRequestRefusesBadNames(t *testing.T) {
	const bad = "a\xffb"
	entry := appendNames(nil, []string{string(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), bad))}, false)
	entry[0] = 5<<3 | byte(protowire.BytesType)
	for v, data := range map[variant][]byte{sotw: appendNames(nil, []string{bad}, false), delta: entry} {
		r := &request{variant: v, intern: newInterner()}
		if err := r.read(data); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("%s: %v, want it refused", v, err)
		}
	}
}

// For any bytes of a client: an error or names, no panic, and no more names than the limit.
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
			for range r.initial.all() {
			}
			_, _ = r.parseNode()
		}
	})
}
