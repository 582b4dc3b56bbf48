package content

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
)

// reconnection is what an Envoy reports that has n resources, in an order of its own.
func reconnection(n, proxy int) []byte {
	random := rand.New(rand.NewPCG(uint64(proxy), 0))
	var fields []byte
	for _, i := range random.Perm(n) {
		fields = appendReported(fields, fmt.Sprintf("outbound|80||service-%04d.namespace.svc.cluster.local", i), fmt.Sprintf("%016x", i))
	}
	fields = appendReported(fields, fmt.Sprint("inbound|80||", proxy), "0123456789abcdef")
	return fields
}

// What a request keeps of the resources that others report too is a twentieth of its size, and nothing of its message.
func TestReportedResourcesAreKeptOnce(t *testing.T) {
	const n = 1000
	in := NewInterner()
	first, err := in.OfVersions(reconnection(n, 0))
	if err != nil {
		t.Fatal(err)
	}
	list := len(first.of.entries())
	for proxy := 1; proxy < 20; proxy++ {
		message := reconnection(n, proxy)
		r, err := in.OfVersions(message)
		if err != nil {
			t.Fatal(err)
		}
		if kept := 4*cap(r.at) + len(r.rest); kept*15 > len(message) || r.rest != "" {
			t.Errorf("%d bytes are kept of a request of %d", kept, len(message))
		}
		if r.of != first.of {
			t.Fatal("the list of entries is another")
		}
		clear(message)
		names := map[string]string{}
		for e := range r.All() {
			names[e.Name] = e.Version
		}
		if len(names) != n+1 || names[fmt.Sprint("inbound|80||", proxy)] != "0123456789abcdef" {
			t.Errorf("%d names, want %d", len(names), n+1)
		}
	}
	if got := len(first.of.entries()); got != list+19 {
		t.Errorf("%d entries are listed after 19 further proxies, want %d: one more for each", got, list+19)
	}
	again := reconnection(n, 1)
	if allocated := testing.AllocsPerRun(20, func() {
		if _, err := in.OfVersions(again); err != nil {
			t.Error(err)
		}
	}); allocated > 4 {
		t.Errorf("%.0f allocations to read a request of known entries", allocated)
	}
}

// The list of entries is dropped with the last request that points into it.
func TestReportedResourcesAreForgotten(t *testing.T) {
	in := NewInterner()
	r, err := in.OfVersions(reconnection(10, 0))
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if in.reported.Value() != r.of {
		t.Error("the list is dropped while a request points into it")
	}
	r = Versions{}
	adstest.Until(t, "the list to be dropped", func() bool {
		runtime.GC()
		return in.reported.Value() == nil
	})
}

// A client that reports ever new names fills a list, and the next request begins another. An entry for which there is
// no room costs its own request only, and is read as any other.
func TestReportedResourcesAreBounded(t *testing.T) {
	in := NewInterner()
	v := in.versionTable()
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
		for e := range got.All() {
			read[e.Name] = e.Version
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
	many := had(0, MaxNames+10)
	if got := reportedBy(t, NewInterner(), many); len(got.at) > MaxNames || len(slices.Collect(got.All())) != len(many) {
		t.Errorf("of %d names %d are listed, %d are read", len(many), len(got.at), len(slices.Collect(got.All())))
	}
}
