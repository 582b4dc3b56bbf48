package ads

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// reconnection is the first request of an Envoy that has n resources, in an order of its own.
func reconnection(n, proxy int) []byte {
	random := rand.New(rand.NewPCG(uint64(proxy), 0))
	var fields []byte
	for _, i := range random.Perm(n) {
		fields = appendInitial(fields, fmt.Sprintf("outbound|80||service-%04d.namespace.svc.cluster.local", i), fmt.Sprintf("%016x", i))
	}
	fields = appendInitial(fields, fmt.Sprint("inbound|80||", proxy), "0123456789abcdef")
	typeURL := protowire.AppendTag(nil, 2, protowire.BytesType)
	return append(protowire.AppendString(typeURL, clusterType), fields...)
}

// What a request keeps of the resources that others report too is a twentieth of its size, and nothing of its message.
func TestReportedResourcesAreKeptOnce(t *testing.T) {
	const n = 1000
	in := newInterner()
	first := &request{variant: delta, intern: in}
	if err := first.read(reconnection(n, 0)); err != nil {
		t.Fatal(err)
	}
	list := len(first.initial.of.entries())
	for proxy := 1; proxy < 20; proxy++ {
		message := reconnection(n, proxy)
		r := &request{variant: delta, intern: in}
		if err := r.read(message); err != nil {
			t.Fatal(err)
		}
		if kept := 4*cap(r.initial.at) + len(r.initial.rest); kept*15 > len(message) || r.initial.rest != "" {
			t.Errorf("%d bytes are kept of a request of %d", kept, len(message))
		}
		if r.initial.of != first.initial.of {
			t.Fatal("the list of entries is another")
		}
		clear(message)
		names := map[string]string{}
		for e := range r.initial.all() {
			names[e.name] = e.version
		}
		if len(names) != n+1 || names[fmt.Sprint("inbound|80||", proxy)] != "0123456789abcdef" {
			t.Errorf("%d names, want %d", len(names), n+1)
		}
	}
	if got := len(first.initial.of.entries()); got != list+19 {
		t.Errorf("%d entries are listed after 19 further proxies, want %d: one more for each", got, list+19)
	}
	again := reconnection(n, 1)
	if allocated := testing.AllocsPerRun(20, func() {
		if err := (&request{variant: delta, intern: in}).read(again); err != nil {
			t.Error(err)
		}
	}); allocated > 4 {
		t.Errorf("%.0f allocations to read a request of known entries", allocated)
	}
}

// The list of entries is dropped with the last request that points into it.
func TestReportedResourcesAreForgotten(t *testing.T) {
	in := newInterner()
	r := &request{variant: delta, intern: in}
	if err := r.read(reconnection(10, 0)); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if in.reported.Value() != r.initial.of {
		t.Error("the list is dropped while a request points into it")
	}
	r.done()
	until(t, "the list to be dropped", func() bool {
		runtime.GC()
		return in.reported.Value() == nil
	})
	runtime.KeepAlive(r)
}

// A client that reports ever new names fills a list, and the next request begins another. An entry for which there is
// no room costs its own request only, and is read as any other.
func TestReportedResourcesAreBounded(t *testing.T) {
	in := newInterner()
	v := in.vocabulary()
	v.limit = 100 * (costOfEntry + 20)
	had := func(from, n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("n", from+i)] = fmt.Sprint("v", from+i)
		}
		return out
	}
	for _, c := range []struct{ from, n, places int }{{0, 40, 40}, {1000, 90, 0}, {20, 90, 20}, {0, 60, 60}} {
		want := had(c.from, c.n)
		got := reportedBy(t, in, want)
		if got.of != v {
			t.Fatal("the list is another")
		}
		if len(got.at) != c.places {
			t.Errorf("%d names from %d: %d are listed, want %d", c.n, c.from, len(got.at), c.places)
		}
		read := map[string]string{}
		for e := range got.all() {
			read[e.name] = e.version
		}
		if !maps.Equal(read, want) {
			t.Errorf("%d names from %d: read %v", c.n, c.from, read)
		}
	}
	if n := len(v.entries()); n != 60 {
		t.Errorf("%d entries, want 60", n)
	}
	if reportedBy(t, in, had(0, 1)).of == v {
		t.Error("a list that is half full takes another request")
	}
	many := had(0, maxNames+10)
	if got := reportedBy(t, newInterner(), many); len(got.at) > maxNames || len(slices.Collect(got.all())) != len(many) {
		t.Errorf("of %d names %d are listed, %d are read", len(many), len(got.at), len(slices.Collect(got.all())))
	}
}

// What the protocol ignores is not kept: the resources that are reported after the first request for a type, and those of
// types that are not served. It is refused where it is malformed, as in a first request.
func TestReportedResourcesAreTakenOnce(t *testing.T) {
	in := newInterner()
	r := &request{variant: delta, intern: in}
	request := func(typeURL string, entries []byte) []byte {
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
		if err := r.read(request(c.typeURL, entries)); err != nil {
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
	ignored := request("", many)
	if allocated := testing.AllocsPerRun(20, func() {
		if err := r.read(ignored); err != nil {
			t.Error(err)
		}
	}); allocated > 0 {
		t.Errorf("%.0f allocations to read a request that reports what is ignored", allocated)
	}
	if err := r.read(request("", appendInitial(nil, "\xff", "1"))); err == nil {
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
		name := appendNames(nil, []string{"x"}, false)
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
