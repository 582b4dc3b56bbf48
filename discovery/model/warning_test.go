package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	networking "istio.io/api/networking/v1alpha3"
)

// Warnings are notes of an object while it is served, and no others are examined for them.
func TestNotesOfWarnings(t *testing.T) {
	const n = 500
	service := in("n", "s.n.svc.cluster.local")
	groups := map[string]Group{"service": {Services: []*Service{service}}}
	put := func(i int, spec any, warnings ...Warning) *Object {
		o := object("DestinationRule", "n", fmt.Sprint("d", i), 1, &networking.DestinationRule{Host: fmt.Sprintf("h%d.example", i)})
		if o.Warnings = WarningsOf(warnings); spec != nil {
			o.Spec = spec
		}
		o.Origin = Origin{File: "a.yaml", Line: 10 * i, Fields: Lines(AppendPlace(nil, 0, 3, "spec.old"))}
		groups[fmt.Sprint(i)] = Group{Objects: []*Object{o}}
		return o
	}
	old := Warning{"spec.old", "is deprecated"}
	for i := range n {
		put(i, nil, old)
	}
	all := func() *Mesh {
		return New(func(yield func(Group) bool) {
			for _, key := range slices.Sorted(func(yield func(string) bool) {
				for key := range groups {
					if !yield(key) {
						return
					}
				}
			}) {
				if !yield(groups[key]) {
					return
				}
			}
		})
	}
	var judged *Judged
	step := func(what string, looked, want int) (found []Note) {
		t.Helper()
		m := all()
		var notes []Note
		notes, judged = m.NotesAfter(judged)
		if fmt.Sprint(notes) != fmt.Sprint(m.Notes()) {
			t.Errorf("%s: notes are\n%v\nwant\n%v", what, notes, m.Notes())
		}
		for _, note := range notes {
			if note.Code == Warned {
				found = append(found, note)
			}
		}
		if len(found) != want || judged.looked != looked {
			t.Errorf("%s: %d notes of warnings and %d objects examined, want %d and %d", what, len(found), judged.looked, want, looked)
		}
		return found
	}
	for _, note := range step("all", n, n)[7:8] {
		if note.Path != old.Path || note.Message != old.Message || note.Line() != note.Meta.Origin.Line+3 || note.Meta.Origin.File != "a.yaml" {
			t.Errorf("the note is %+v at line %d", note, note.Line())
		}
	}
	step("nothing", 0, n)
	moved := *service
	moved.Endpoints = []Endpoint{{Address: "10.0.0.1"}}
	groups["service"] = Group{Services: []*Service{&moved}}
	step("a service of no rule", 0, n)
	mended := put(3, nil)
	step("one is mended", 1, n-1)
	put(3, mended.Spec, old, Warning{"", "is strange"}) // with the same message
	step("and written differently, with the same meaning", 1, n+1)
	delete(groups, "3")
	step("one is deleted", 0, n-1)
}

// An object that two stores have is served once, with the warnings of what is served.
func TestWarningsOfWhatIsServed(t *testing.T) {
	var objects []*Object
	for _, file := range []string{"a.yaml", "b.yaml"} {
		o := object("DestinationRule", "n", "d", 1, &networking.DestinationRule{Host: "h.example"})
		o.Origin.File, o.Warnings = file, WarningsOf([]Warning{{Message: "of " + file}})
		objects = append(objects, o)
	}
	found := 0
	for _, n := range meshOf(objects).Notes() {
		if n.Code != Warned {
			continue
		}
		if found++; n.Message != "of "+n.Meta.Origin.File {
			t.Errorf("%s has the note %q", n.Meta.Origin, n.Message)
		}
	}
	if found != 1 {
		t.Errorf("%d notes, want one", found)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	if WarningsOf(nil) != nil || len((*Warnings)(nil).All()) != 0 {
		t.Error("no warning takes memory")
	}
	var many []Warning
	for i := range 10_000 {
		many = append(many, Warning{fmt.Sprintf("spec.http[%d].%s", i, strings.Repeat("ö", 2000)), strings.Repeat("ä", 2000)})
	}
	kept := WarningsOf(many)
	all := kept.All()
	if len(all) != maxWarnings+1 || all[maxWarnings].Message != "has 9950 more warnings, which are not named here: discovery validate names them" {
		t.Errorf("%d are kept, the last is %v", len(all), all[len(all)-1])
	}
	for _, w := range all {
		if len(w.Path) > maxWarningText || len(w.Message) > maxWarningText {
			t.Errorf("a text has %d and %d bytes", len(w.Path), len(w.Message))
		}
	}
	if again := WarningsOf(all); !again.Same(kept) {
		t.Errorf("what was kept is kept again as %v", again.All()[len(all)-1])
	}
	if kept.Same(nil) || kept.Same(WarningsOf(many[:3])) {
		t.Error("other warnings are the same")
	}
	if size := unsafe.Sizeof(Object{}); size > 160 { // the next of Go's sizes after that without warnings
		t.Errorf("an Object has %d bytes", size)
	}
}
