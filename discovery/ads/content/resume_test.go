package content

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// made makes a set of "name=content" words; the contents are made up.
func made(k Kind, words string) *Set {
	resources := []*Resource{}
	for _, word := range strings.Fields(words) {
		name, text, _ := strings.Cut(word, "=")
		resources = append(resources, Encode(name, wrapperspb.String(name+"="+text)))
	}
	return SetOf(k, resources)
}

// initialOf encodes the resources of a client as Envoy does: in any order.
func initialOf(had map[string]string) (fields []byte) {
	for name, version := range had {
		fields = appendReported(fields, name, version)
	}
	return fields
}

func appendReported(fields []byte, name, version string) []byte {
	e := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	e = protowire.AppendString(protowire.AppendTag(e, 2, protowire.BytesType), version)
	return protowire.AppendBytes(protowire.AppendTag(fields, 5, protowire.BytesType), e)
}

func reportedBy(t *testing.T, in *Interner, had map[string]string) Versions {
	t.Helper()
	v, err := in.OfVersions(initialOf(had))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func versionsOf(s *Set) map[string]string {
	had := map[string]string{}
	for _, r := range s.All() {
		had[r.Name] = r.Version
	}
	return had
}

// withOwn returns a set that many proxies share, plus a cluster of one proxy's own.
func withOwn(common *Set, number, content int) *Set {
	own := newResourceSet(CDS, []*Resource{Encode(fmt.Sprint("inbound", number), wrapperspb.Int32(int32(content)))})
	return combine(CDS, common.sets[0], own)
}

// A hundred clients reconnect after larger changes, each with a cluster of its own: the shared resources are compared
// once and encoded once, not a hundred times.
func TestResumptionsShareTheirAnswer(t *testing.T) {
	var before, after strings.Builder
	for i := range 200 {
		fmt.Fprintf(&before, "c%03d=1 ", i)
		fmt.Fprintf(&after, "c%03d=%d ", i+20, i%2+1) // 20 are removed, 20 are new, half of the others have changed
	}
	was, is := made(CDS, before.String()), made(CDS, after.String())
	sh := NewShare(NewInterner())
	encodings := map[*byte]bool{}
	for i := range 100 {
		want := withOwn(is, i, 1)
		had := sh.Resume(want, reportedBy(t, sh.Interner, versionsOf(withOwn(was, i, i%2))), true)
		update := sh.Answer(Question{Had: had, Want: want, Variant: Delta, Wildcard: true, Gone: true})
		if update == nil {
			t.Fatal("nothing is sent")
		}
		for _, part := range update.Lists {
			if len(part.Resources) > 1 {
				pieces, _ := part.Pieces(Delta)
				encodings[&pieces[0][0]] = true
			}
		}
	}
	if got := len(sh.resumed.values); got != 1 {
		t.Errorf("what clients have was made %d times, want once", got)
	}
	if len(encodings) != 2 {
		t.Errorf("%d different encodings, want 2: what is new or changed, and what is gone", len(encodings))
	}
}

// For any versions that clients report: each client gets the resources that it lacks or has in another form, and the
// names of those that no longer exist, and nothing else, even if others have sent requests before.
func TestResumedClientsAreToldTheDifference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sh := NewShare(NewInterner())
	words := func(n int) string {
		var b strings.Builder
		for i := range n {
			if random.IntN(3) > 0 {
				fmt.Fprintf(&b, "c%02d=%d ", i, random.IntN(2))
			}
		}
		return b.String()
	}
	for round := range 300 {
		common, k := made(CDS, words(1+random.IntN(40))), CDS
		want := common
		if len(common.sets) > 0 && round%2 == 0 {
			want = withOwn(common, random.IntN(2), random.IntN(2))
		}
		for range 4 {
			had := versionsOf(made(k, words(40)))
			for name := range had {
				if r := want.Find(name); r != nil && random.IntN(3) > 0 {
					had[name] = r.Version
				}
			}
			if random.IntN(2) == 0 {
				own := Encode(fmt.Sprint("inbound", random.IntN(2)), wrapperspb.Int32(int32(random.IntN(2))))
				had[own.Name] = own.Version
			}
			expected := map[string]bool{}
			for name := range had {
				if want.Find(name) == nil {
					expected["-"+name] = true
				}
			}
			for _, r := range want.All() {
				if had[r.Name] != r.Version {
					expected[r.Name] = true
				}
			}
			got := map[string]bool{}
			if n := sh.Answer(Question{Had: sh.Resume(want, reportedBy(t, sh.Interner, had), true), Want: want, Variant: Delta, Wildcard: true, Gone: true}); n != nil {
				for _, p := range n.Lists {
					for _, r := range p.Resources {
						name := r.Name
						if !r.Exists() {
							name = "-" + name
						}
						if got[name] {
							t.Errorf("%s is sent twice", name)
						}
						got[name] = true
					}
				}
			}
			if !maps.Equal(got, expected) {
				t.Fatalf("round %d: told %v, want %v", round, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(expected)))
			}
		}
	}
}
