package ads

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
)

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
	entry := nameField(string(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), bad)))
	entry[0] = 5<<3 | byte(protowire.BytesType)
	for v, data := range map[variant][]byte{sotw: nameField(bad), delta: entry} {
		r := &request{variant: v, intern: newInterner()}
		if err := r.read(data); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("%s: %v, want it refused", v, err)
		}
	}
}

// For any bytes of a client: an error or names, no panic, and no more names than the limit.
func FuzzRequest(f *testing.F) {
	for _, m := range []proto.Message{
		&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: clusterType, ResourceNames: []string{"a", "*", "b"}, ErrorDetail: refused("x")},
		&discoveryv3.DeltaDiscoveryRequest{
			Node: adstest.Node(), TypeUrl: endpointType, ResponseNonce: "1", ResourceNamesSubscribe: []string{"a"},
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

// What the protocol ignores is not kept: the resources that are reported after the first request for a type, and those of
// types that are not served. It is refused where it is malformed, as in a first request.
func TestReportedResourcesAreTakenOnce(t *testing.T) {
	in := newInterner()
	r := &request{variant: delta, intern: in}
	message := func(typeURL string, entries []byte) []byte {
		var b []byte
		if typeURL != "" {
			b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), typeURL)
		}
		return append(entries, b...)
	}
	for i, c := range []struct {
		typeURL  string
		reported bool
		taken    bool
	}{
		{clusterType, true, true},
		{clusterType, true, false},
		{listenerType, false, false},
		{listenerType, true, false},
		{"x", true, false},
		{"x", true, false},
		{"", true, true}, // a service of one kind
		{"", true, false},
		{endpointType, true, true},
	} {
		var entries []byte
		if c.reported {
			entries = appendInitial(nil, fmt.Sprint("n", i), "1")
		}
		if err := r.read(message(c.typeURL, entries)); err != nil {
			t.Fatal(err)
		}
		if taken := !r.initial.empty(); taken != c.taken {
			t.Errorf("request %d, for %q: taken %t, want %t", i, c.typeURL, taken, c.taken)
		}
	}
	var many []byte
	for i := range 1000 {
		many = appendInitial(many, fmt.Sprint("many", i), "1")
	}
	ignored := message("", many)
	if allocated := testing.AllocsPerRun(20, func() {
		if err := r.read(ignored); err != nil {
			t.Error(err)
		}
	}); allocated > 0 {
		t.Errorf("%.0f allocations to read a request that reports what is ignored", allocated)
	}
	first := &request{variant: delta, intern: in}
	if allocated := testing.AllocsPerRun(20, func() {
		*first = request{variant: delta, intern: in}
		if err := first.read(message(clusterType, many)); err != nil {
			t.Error(err)
		}
	}); allocated > 5 {
		t.Errorf("%.0f allocations to read a first request of known entries", allocated)
	}
	if first.done(); !first.initial.empty() || first.node != nil {
		t.Error("a request that is answered keeps what it reported")
	}
	if err := r.read(message("", appendInitial(nil, "\xff", "1"))); err == nil {
		t.Error("a malformed name is taken where it is ignored")
	}
}

// For any bytes, whether they are known or new, and whether the entries are adjacent or not: the names and versions that
// protobuf reads, or both refuse them.
func FuzzReportedResources(f *testing.F) {
	f.Add([]byte("\x0a\x01a\x12\x011"), []byte("\x0a\x01b\x12\x011"), []byte("\x0a\x01a\x12\x012"))
	f.Add([]byte("\x12\x011\x0a\x01a\x0a\x01c"), []byte(""), []byte("\x0a\x01\xff"))
	f.Add([]byte("\x08\x01\x0a\x01a"), []byte("\x1a\x01z\x12\x01\xff"), []byte("\x0b\x0c\x0a\x00"))
	f.Add([]byte(""), []byte("0"), []byte("\x80\xfc\x9e\x9d00"))
	f.Add([]byte("\x0a\x05a"), []byte("\x0a\x81\x80\x00"+strings.Repeat("a", 129)), []byte("\x00\x01"))
	f.Fuzz(func(t *testing.T, one, two, three []byte) {
		in := newInterner()
		field := func(b, entry []byte) []byte {
			return protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), entry)
		}
		name := nameField("x")
		for _, message := range [][]byte{
			field(nil, one), field(field(nil, one), two), field(field(field(nil, three), one), two),
			append(append(field(nil, one), name...), field(field(nil, three), one)...), field(field(nil, one), one),
		} {
			theirs := &discoveryv3.DeltaDiscoveryRequest{}
			refused := proto.Unmarshal(message, theirs)
			ours := &request{variant: delta, intern: in}
			err := ours.read(message)
			if (err == nil) != (refused == nil) {
				t.Fatalf("%q: %v, protobuf: %v", message, err, refused)
			}
			if later := (&request{variant: delta, intern: in, asked: asked{kinds: true}}).read(message); (later == nil) != (err == nil) {
				t.Fatalf("%q: %v, in a later request: %v", message, err, later)
			}
			if err != nil {
				continue
			}
			got := map[string][]string{}
			for e := range ours.initial.all() {
				got[e.name] = append(got[e.name], e.version)
			}
			for name, version := range theirs.InitialResourceVersions {
				if !slices.Contains(got[name], version) {
					t.Errorf("%q: %q in %q, protobuf: %q", message, name, got[name], version)
				}
			}
			if len(got) != len(theirs.InitialResourceVersions) {
				t.Errorf("%q: %q, protobuf: %q", message, got, theirs.InitialResourceVersions)
			}
		}
	})
}

func appendInitial(fields []byte, name, version string) []byte {
	e := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	e = protowire.AppendString(protowire.AppendTag(e, 2, protowire.BytesType), version)
	return protowire.AppendBytes(protowire.AppendTag(fields, 5, protowire.BytesType), e)
}

// Of a version and a nonce a stream keeps a bounded part.
func TestTokensAreBounded(t *testing.T) {
	long := &discoveryv3.DiscoveryRequest{VersionInfo: strings.Repeat("v", 1<<20), ResponseNonce: strings.Repeat("n", 1<<20)}
	if r := scan(t, newInterner(), long); len(r.version) > maxToken || len(r.nonce) > maxToken {
		t.Errorf("%d bytes of version and %d of nonce are kept", len(r.version), len(r.nonce))
	}
}

// nameField is a name as a field of a request.
func nameField(name string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), name)
}
