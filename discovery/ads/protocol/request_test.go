package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// Names that a stream repeats are recognised without parsing, and only repeated ones.
func TestRequestRepeatsNames(t *testing.T) {
	in := content.NewInterner()
	r := &Request{Intern: in}
	read := func(names ...string) []string {
		data, err := proto.Marshal(&discoveryv3.DiscoveryRequest{
			VersionInfo: "v", ResourceNames: names, TypeUrl: content.EndpointType, ResponseNonce: "1",
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.scan(data); err != nil {
			t.Fatal(err)
		}
		if r.TypeURL != content.EndpointType || r.Nonce != "1" || r.version != "v" {
			t.Errorf("read %+v", r)
		}
		got := r.Names
		if got.Len() > r.Likely.Len() {
			r.Likely = got
		}
		return slices.Clone(got.All())
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
		for v, m := range [content.Variants]proto.Message{
			content.SotW: &discoveryv3.DiscoveryRequest{ResourceNames: []string{"a", name}},
			content.Delta: &discoveryv3.DeltaDiscoveryRequest{
				ResourceNamesSubscribe: []string{"a", name}, ResourceNamesUnsubscribe: []string{name},
				InitialResourceVersions: map[string]string{name: "0123456789abcdef"},
			},
		} {
			r := &Request{Variant: content.Variant(v), Intern: content.NewInterner()}
			data, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.scan(data); err != nil || !r.Names.Has(name) {
				t.Errorf("%s, a name of %d bytes: read %d names, error %v", content.Variant(v), size, r.Names.Len(), err)
			}
		}
	}
}

// A name that is not UTF-8 would be a part of answers, which protobuf does not allow.
func TestRequestRefusesBadNames(t *testing.T) {
	const bad = "a\xffb"
	entry := nameField(string(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), bad)))
	entry[0] = 5<<3 | byte(protowire.BytesType)
	for v, data := range map[content.Variant][]byte{content.SotW: nameField(bad), content.Delta: entry} {
		r := &Request{Variant: v, Intern: content.NewInterner()}
		if err := r.scan(data); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("%s: %v, want it refused", v, err)
		}
	}
}

// For any bytes of a client: an error or names, no panic, and no more names than the limit.
func FuzzRequest(f *testing.F) {
	for _, m := range []proto.Message{
		&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType, ResourceNames: []string{"a", "*", "b"}, ErrorDetail: refused("x")},
		&discoveryv3.DeltaDiscoveryRequest{
			Node: adstest.Node(), TypeUrl: content.EndpointType, ResponseNonce: "1", ResourceNamesSubscribe: []string{"a"},
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
		in := content.NewInterner()
		for v := range content.Variants {
			r := &Request{Variant: v, Intern: in}
			if r.scan(first) != nil {
				continue
			}
			likely := &Request{Variant: v, Intern: in, Likely: r.Names}
			plain := &Request{Variant: v, Intern: in}
			a, b := likely.scan(second), plain.scan(second)
			if (a == nil) != (b == nil) || a == nil && fmt.Sprint(likely.Names) != fmt.Sprint(plain.Names) {
				t.Errorf("with a likely list: %v %v, without: %v %v", likely.Names, a, plain.Names, b)
			}
			for range r.initial.All() {
			}
			_, _ = r.ParseNode()
		}
	})
}

// What the protocol ignores is not kept: the resources that are reported after the first request for a type, and those of
// types that are not served. It is refused where it is malformed, as in a first request.
func TestReportedResourcesAreTakenOnce(t *testing.T) {
	in := content.NewInterner()
	r := &Request{Variant: content.Delta, Intern: in}
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
		{content.ClusterType, true, true},
		{content.ClusterType, true, false},
		{content.ListenerType, false, false},
		{content.ListenerType, true, false},
		{"x", true, false},
		{"x", true, false},
		{"", true, true}, // a service of one kind
		{"", true, false},
		{content.EndpointType, true, true},
	} {
		var entries []byte
		if c.reported {
			entries = appendInitial(nil, fmt.Sprint("n", i), "1")
		}
		if err := r.scan(message(c.typeURL, entries)); err != nil {
			t.Fatal(err)
		}
		if taken := !r.initial.Empty(); taken != c.taken {
			t.Errorf("request %d, for %q: taken %t, want %t", i, c.typeURL, taken, c.taken)
		}
	}
	var many []byte
	for i := range 1000 {
		many = appendInitial(many, fmt.Sprint("many", i), "1")
	}
	ignored := message("", many)
	if allocated := testing.AllocsPerRun(20, func() {
		if err := r.scan(ignored); err != nil {
			t.Error(err)
		}
	}); allocated > 0 {
		t.Errorf("%.0f allocations to read a request that reports what is ignored", allocated)
	}
	first := &Request{Variant: content.Delta, Intern: in}
	if allocated := testing.AllocsPerRun(20, func() {
		*first = Request{Variant: content.Delta, Intern: in}
		if err := first.scan(message(content.ClusterType, many)); err != nil {
			t.Error(err)
		}
	}); allocated > 5 {
		t.Errorf("%.0f allocations to read a first request of known entries", allocated)
	}
	if first.Done(); !first.initial.Empty() || first.Node != nil {
		t.Error("a request that is answered keeps what it reported")
	}
	if err := r.scan(message("", appendInitial(nil, "\xff", "1"))); err == nil {
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
		in := content.NewInterner()
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
			ours := &Request{Variant: content.Delta, Intern: in}
			err := ours.scan(message)
			if (err == nil) != (refused == nil) {
				t.Fatalf("%q: %v, protobuf: %v", message, err, refused)
			}
			if later := (&Request{Variant: content.Delta, Intern: in, asked: asked{content.Kinds: true}}).scan(message); (later == nil) != (err == nil) {
				t.Fatalf("%q: %v, in a later request: %v", message, err, later)
			}
			if err != nil {
				continue
			}
			got := map[string][]string{}
			for e := range ours.initial.All() {
				got[e.Name] = append(got[e.Name], e.Version)
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
	if r := scan(t, content.NewInterner(), long); len(r.version) > maxToken || len(r.Nonce) > maxToken {
		t.Errorf("%d bytes of version and %d of nonce are kept", len(r.version), len(r.Nonce))
	}
}

// nameField is a name as a field of a request.
func nameField(name string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), name)
}
