package content

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
		settings := model.Settings{Domain: model.DefaultDomain}
		if seed%2 == 0 { // what a namespace gives to others is often beyond these
			settings.Bounds = &model.Bounds{2, 3, 4, 3}
		}
		mesh := model.NewOf(settings, w.inOrder)
		in := NewInterner()
		g := (*Views)(nil).Follow(mesh, in)
		for _, name := range names {
			g.Snapshot(Reader{View: worldViews()[name], Names: true})
		}
		_, judged := mesh.NotesAfter(nil)
		for step := range *steps {
			next, edited := w.next(mesh)
			mesh, g = next, g.Follow(next, in)
			whole := model.NewOf(settings, w.inOrder)
			for _, fault := range differences(whole, g, names) {
				t.Errorf("seed %d, step %d, of %s: %s", seed, step, edited, fault)
			}
			connected := []model.Proxy{worldViews()[names[step%len(names)]].Proxy()} // another one each time
			var notes []model.Note
			notes, judged = mesh.NotesAfter(judged, connected...)
			if a, b := fmt.Sprint(whole.Notes(connected...)), fmt.Sprint(notes); a != b {
				t.Errorf("seed %d, step %d, of %s: notes after those before are\n%s\nwant\n%s", seed, step, edited, b, a)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// differences compares a generation with one that is made of the same mesh without a predecessor.
func differences(whole *model.Mesh, g *Views, names []string) (out []string) {
	fresh := (*Views)(nil).Follow(whole, NewInterner())
	for _, name := range names {
		v := worldViews()[name]
		want, got := fresh.Snapshot(Reader{View: v, Names: true}), g.Snapshot(Reader{View: v, Names: true})
		for k := range Kinds {
			if k == SDS {
				continue
			}
			out = append(out, unequal(fmt.Sprintf("%s of %s", k, name), want[k].All(), got[k].All())...)
		}
		// Fields that a view leaves out make no difference.
		full := xds.RebuildWithSibling(nil, nil, whole, v.Outbound)
		plain := encoder{views: fresh}.encode(full)
		cut := g.outbound(v.Outbound)
		for k := range Kinds {
			if !k.Asked() {
				out = append(out, unequal(fmt.Sprintf("%s of %s with all labels", k, name), plain.sets[k].Resources, cut.sets[k].Resources)...)
			}
		}
	}
	if a, b := fmt.Sprint(whole.Notes()), fmt.Sprint(g.Mesh.Notes()); a != b {
		out = append(out, fmt.Sprintf("notes are\n%s\nwant\n%s", b, a))
	}
	return out
}

func unequal(what string, want, got []*Resource) (out []string) {
	text := func(list []*Resource) map[string][]byte {
		m := map[string][]byte{}
		for _, r := range list {
			m[r.Name] = r.Whole()
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
		g := (*Views)(nil).Follow(model.New(w.inOrder), NewInterner())
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
