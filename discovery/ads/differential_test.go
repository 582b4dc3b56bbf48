package ads

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

var (
	worlds = flag.Int("worlds", 20, "how many random meshes are edited; make e2e-long says 400")
	steps  = flag.Int("steps", 6, "how often each of them is")
	first  = flag.Uint64("first", 1, "the seed of the first")
)

// A generation that is made of the one before equals one that is made from nothing: of random meshes, edited at random,
// each proxy gets the same bytes, and the notes are the same. A failure names its seed: -worlds 1 -first SEED repeats
// it.
func TestEditsAreToldAsAFreshServerTellsThem(t *testing.T) {
	names := slices.Sorted(maps.Keys(worldViews()))
	for seed := *first; seed < *first+uint64(*worlds); seed++ {
		w := newWorld(seed)
		mesh := model.New(w.inOrder)
		in := newInterner()
		g := (*views)(nil).follow(mesh, in)
		for _, name := range names {
			g.snapshot(reader{View: worldViews()[name], names: true})
		}
		for step := range *steps {
			next, edited := w.next(mesh)
			mesh, g = next, g.follow(next, in)
			whole := model.New(w.inOrder)
			for _, fault := range differences(whole, g, names) {
				t.Errorf("seed %d, step %d, of %s: %s", seed, step, edited, fault)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// differences compares a generation with one that is made of the same mesh without a predecessor.
func differences(whole *model.Mesh, g *views, names []string) (out []string) {
	fresh := (*views)(nil).follow(whole, newInterner())
	for _, name := range names {
		v := worldViews()[name]
		want, got := fresh.snapshot(reader{View: v, names: true}), g.snapshot(reader{View: v, names: true})
		for k := range kinds {
			if k == sds {
				continue
			}
			out = append(out, unequal(fmt.Sprintf("%s of %s", k, name), want[k].all(), got[k].all())...)
		}
		// Fields that a view leaves out make no difference.
		full := xds.BuildOutbound(whole, v.Outbound)
		plain := encoder{views: fresh}.encode(full)
		cut := g.outbound(v.Outbound)
		for k := range kinds {
			if !k.asked() {
				out = append(out, unequal(fmt.Sprintf("%s of %s with all labels", k, name), plain.layers[k].resources, cut.layers[k].resources)...)
			}
		}
	}
	if a, b := fmt.Sprint(whole.Notes()), fmt.Sprint(g.mesh.Notes()); a != b {
		out = append(out, fmt.Sprintf("notes are\n%s\nwant\n%s", b, a))
	}
	return out
}

func unequal(what string, want, got []*resource) (out []string) {
	text := func(list []*resource) map[string][]byte {
		m := map[string][]byte{}
		for _, r := range list {
			m[r.name] = r.whole()
		}
		return m
	}
	a, b := text(want), text(got)
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			out = append(out, fmt.Sprintf("%s: %s is\n%s\nwant\n%s", what, name, readable(b[name]), readable(a[name])))
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			out = append(out, fmt.Sprintf("%s: %s should not be there", what, name))
		}
	}
	slices.Sort(out)
	return out
}

// readable returns the text in content, without other bytes.
func readable(content []byte) string {
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '·'
		}
		return r
	}, content))
}

// One mesh gives one answer, independent of the order of Go's maps and of the order in which its groups are sent.
func TestOneMeshIsToldInOneWay(t *testing.T) {
	for seed := uint64(1); seed <= uint64(max(1, *worlds/3)); seed++ {
		w := newWorld(seed)
		for range 20 {
			w.edit()
		}
		names := slices.Sorted(maps.Keys(worldViews()))
		g := (*views)(nil).follow(model.New(w.inOrder), newInterner())
		for range 10 {
			groups := slices.Collect(w.inOrder)
			rand.Shuffle(len(groups), func(i, j int) {
				groups[i], groups[j] = groups[j], groups[i]
			})
			for _, fault := range differences(model.New(slices.Values(groups)), g, names) {
				t.Fatalf("seed %d: %s", seed, fault)
			}
		}
	}
}
