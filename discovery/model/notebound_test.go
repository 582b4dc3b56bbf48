package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// An object with many mistakes has a hundred notes, and one that counts the others: it hides no other object's.
func TestNotesOfAnObjectAreBounded(t *testing.T) {
	rule := func(name string, n int) *Object {
		spec := &networking.VirtualService{Hosts: []string{"a.test"}}
		for i := range n {
			spec.Http = append(spec.Http, &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{
				{Destination: &networking.Destination{Host: fmt.Sprintf("missing%d.test", i)}},
			}})
		}
		return &Object{Meta: Meta{Kind: "VirtualService", Namespace: "n", Name: name}, Spec: spec}
	}
	group := Group{Services: []*Service{{Right: RightFull, Host: "a.test", Namespace: "n"}}, Objects: []*Object{rule("few", 1), rule("many", 250), rule("other", 1)}}
	notes := New(slices.Values([]Group{group})).Notes()
	count := map[string]int{}
	for _, n := range notes {
		count[n.Meta.Name]++
	}
	if count["few"] == 0 || count["other"] == 0 || count["many"] != maxNotes+1 {
		t.Errorf("got %v", count)
	}
	i := slices.IndexFunc(notes, func(n Note) bool { return n.Code == MoreNotes })
	if i < 0 || notes[i].Meta.Name != "many" || !strings.Contains(notes[i].Message, "more notes, which are not named") {
		t.Errorf("got %+v", notes[max(i, 0)])
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "plain", "größe, 大": "größe, 大", "a\nb": `a\nb`, "\x1b[2J": `\x1b[2J`, "\u009b1A": `\u009b1A`, "\u202e": `\u202e`, "\xff": `\xff`,
		"\ufffd": "\ufffd", "\x7f": `\x7f`, "\u00a0": `\u00a0`, "\u2028": `\u2028`,
	} {
		if got := OneLine(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
