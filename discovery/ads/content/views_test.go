package content

import (
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// A resource that did not change is not encoded again, and stays the same pointer.
func TestGenerationTakesOverWhatDidNotChange(t *testing.T) {
	var none *Views
	in := NewInterner()
	v := Reader{View: adstest.View(t, "127.0.0.9")}
	one := none.Follow(adstest.Mesh(1, "a", "b"), in)
	first := one.Snapshot(v)
	two := one.Follow(adstest.Mesh(1, "a", "b"), in)
	if two.Snapshot(v) != first {
		t.Error("the same mesh makes another snapshot")
	}
	three := two.Follow(adstest.Mesh(2, "a", "b"), in)
	third := three.Snapshot(v)
	if third[CDS] != first[CDS] || third[LDS] != first[LDS] || third[RDS] != first[RDS] || third[EDS] == first[EDS] {
		t.Error("an endpoint changed: want endpoints to be another set and all else the same")
	}
	if two.last.Load() != nil {
		t.Error("the generation before the last is held")
	}
}

// One message, one encoding: messages with the same pointer are not encoded again.
func TestEncoderKnowsMessages(t *testing.T) {
	g := (*Views)(nil).Follow(nil, NewInterner())
	m := adstest.Mesh(1, "a")
	e := encoder{views: g}
	build := xds.RebuildWithSibling(nil, nil, m, adstest.View(t, "127.0.0.9").Outbound)
	a := e.encode(build)
	a.resources = build
	n := g.Work.Encoded.Total()
	next := g.Follow(nil, NewInterner())
	b := encoder{views: next, old: a}.encode(build)
	if c := (encoder{views: next, sibling: a}).encode(build); c.layers[CDS] != a.layers[CDS] {
		t.Error("another view has another layer")
	}
	if again := next.Work.Encoded.Total(); n == 0 || again != 0 {
		t.Errorf("encoded %d, then %d, want none again", n, again)
	}
	if a.layers[CDS].Resources[0] != b.layers[CDS].Resources[0] {
		t.Error("the resource is another one")
	}
}

// A thousand proxies of one namespace differ in their own address only.
func TestSnapshotSharesEncoding(t *testing.T) {
	var none *Views
	g := none.Follow(adstest.Mesh(1, "a"), NewInterner())
	one, two := Reader{View: adstest.View(t, "127.0.0.1")}, Reader{View: adstest.View(t, "127.0.0.2")}
	a, again, b := g.Snapshot(one), g.Snapshot(one), g.Snapshot(two)
	if a != again {
		t.Error("one view was built twice")
	}
	if a[EDS] != b[EDS] || a[CDS].Find(adstest.Cluster("a")) != b[CDS].Find(adstest.Cluster("a")) {
		t.Error("two proxies of one namespace do not share what they call")
	}
}
