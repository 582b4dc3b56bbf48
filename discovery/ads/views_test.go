package ads

import (
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// A resource that did not change is not encoded again, and stays the same pointer.
func TestGenerationTakesOverWhatDidNotChange(t *testing.T) {
	var none *views
	in := newInterner()
	v := reader{View: adstest.View(t, "127.0.0.9")}
	one := none.follow(adstest.Mesh(1, "a", "b"), in)
	first := one.snapshot(v)
	two := one.follow(adstest.Mesh(1, "a", "b"), in)
	if two.snapshot(v) != first {
		t.Error("the same mesh makes another snapshot")
	}
	three := two.follow(adstest.Mesh(2, "a", "b"), in)
	third := three.snapshot(v)
	if third[cds] != first[cds] || third[lds] != first[lds] || third[rds] != first[rds] || third[eds] == first[eds] {
		t.Error("an endpoint changed: want endpoints to be another set and all else the same")
	}
	if two.last.Load() != nil {
		t.Error("the generation before the last is held")
	}
}

// One message, one encoding: messages with the same pointer are not encoded again.
func TestEncoderKnowsMessages(t *testing.T) {
	g := (*views)(nil).follow(nil, newInterner())
	m := adstest.Mesh(1, "a")
	e := encoder{views: g}
	build := xds.BuildOutbound(m, adstest.View(t, "127.0.0.9").Outbound)
	a := e.encode(build)
	a.resources = build
	n := g.work.encoded.total()
	next := g.follow(nil, newInterner())
	b := encoder{views: next, old: a}.encode(build)
	if c := (encoder{views: next, sibling: a}).encode(build); c.layers[cds] != a.layers[cds] {
		t.Error("another view has another layer")
	}
	if again := next.work.encoded.total(); n == 0 || again != 0 {
		t.Errorf("encoded %d, then %d, want none again", n, again)
	}
	if a.layers[cds].resources[0] != b.layers[cds].resources[0] {
		t.Error("the resource is another one")
	}
}

// A thousand proxies of one namespace differ in their own address only.
func TestSnapshotSharesEncoding(t *testing.T) {
	var none *views
	g := none.follow(adstest.Mesh(1, "a"), newInterner())
	one, two := reader{View: adstest.View(t, "127.0.0.1")}, reader{View: adstest.View(t, "127.0.0.2")}
	a, again, b := g.snapshot(one), g.snapshot(one), g.snapshot(two)
	if a != again {
		t.Error("one view was built twice")
	}
	if a[eds] != b[eds] || a[cds].find(adstest.Cluster("a")) != b[cds].find(adstest.Cluster("a")) {
		t.Error("two proxies of one namespace do not share what they call")
	}
}
