package pilotlight_test

import (
	"cmp"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Some rooms can be read from the bottom up: each file uses files below it only. The number is how many of the arrows of
// a room may run upward, in the best order that is found.
var stairs = map[string]int{
	"discovery/ads": 0, "discovery/ads/content": 0, "discovery/ads/protocol": 0,
}

func TestRoomsAreReadFromTheBottomUp(t *testing.T) {
	exports := exportsOf(t, slices.Sorted(maps.Keys(stairs)))
	for room, most := range stairs {
		names, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		var parsed []*ast.File
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		arrows := arrowsOf(t, set, parsed, importer.ForCompiler(set, "gc", func(of string) (io.ReadCloser, error) { return os.Open(exports[of]) }))
		up := upward(arrows)
		t.Logf("%s: %d arrows, %d upward", room, len(arrows), len(up))
		if len(arrows) == 0 {
			t.Errorf("%s has no arrows: is it there?", room)
		}
		if len(up) > most {
			t.Errorf("%s: %d arrows run upward, want %d at most: %v", room, len(up), most, up)
		}
	}
}

// exportsOf returns the file of types of every package that the rooms import.
func exportsOf(t *testing.T, rooms []string) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, room := range rooms {
		args = append(args, "./"+room)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = file
	}
	return files
}

// arrow says that a file uses what another one of its package declares: a type, a function, a method or a field.
type arrow struct{ from, to string }

func arrowsOf(t *testing.T, set *token.FileSet, parsed []*ast.File, imports types.Importer) map[arrow]bool {
	t.Helper()
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: imports}).Check("", set, parsed, info)
	if err != nil {
		t.Fatal(err)
	}
	out := map[arrow]bool{}
	for ident, object := range info.Uses {
		a := arrow{set.Position(ident.Pos()).Filename, set.Position(object.Pos()).Filename}
		if object.Pkg() == pkg && a.to != "" && a.from != a.to {
			out[a] = true
		}
	}
	return out
}

// upward returns the arrows that run upward when the files stand in a good order. It begins with an order in which none
// does, if there is one. Then one file after the other goes where it has the fewest, until no file gains by another place.
func upward(arrows map[arrow]bool) (up []arrow) {
	order := fromAbove(arrows)
	for better := true; better; {
		better = false
		for _, file := range slices.Clone(order) {
			was := slices.Index(order, file)
			order = slices.Delete(order, was, was+1)
			costs, cost := []int{0}, 0 // of each place, against the top
			for _, above := range order {
				if arrows[arrow{above, file}] {
					cost--
				}
				if arrows[arrow{file, above}] {
					cost++
				}
				costs = append(costs, cost)
			}
			best := was
			if least := slices.Min(costs); costs[was] != least {
				best, better = slices.Index(costs, least), true
			}
			order = slices.Insert(order, best, file)
		}
	}
	for _, a := range sorted(arrows) {
		if slices.Index(order, a.from) > slices.Index(order, a.to) {
			up = append(up, a)
		}
	}
	return up
}

// fromAbove returns the files in an order in which no arrow runs upward, if there is one.
func fromAbove(arrows map[arrow]bool) (order []string) {
	seen := map[string]bool{}
	var visit func(file string)
	visit = func(file string) {
		if seen[file] {
			return
		}
		seen[file] = true
		for _, a := range sorted(arrows) {
			if a.from == file {
				visit(a.to)
			}
		}
		order = append(order, file)
	}
	for _, a := range sorted(arrows) {
		visit(a.from)
	}
	slices.Reverse(order)
	return order
}

func sorted(arrows map[arrow]bool) []arrow {
	return slices.SortedFunc(maps.Keys(arrows), func(a, b arrow) int {
		return cmp.Or(strings.Compare(a.from, b.from), strings.Compare(a.to, b.to))
	})
}

func TestArrowsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		sources     map[string]string
		arrows, ups int
	}{
		"a chain":     {map[string]string{"a.go": "type a struct{ b }", "b.go": "type b struct{ c }", "c.go": "type c struct{}"}, 2, 0},
		"a circle":    {map[string]string{"a.go": "func a() { b() }", "b.go": "func b() { c() }", "c.go": "func c() { a() }"}, 3, 1},
		"a method":    {map[string]string{"a.go": "type a struct{}; func (x a) f() { x.g() }", "b.go": "func (x a) g() {}"}, 2, 1},
		"a field":     {map[string]string{"a.go": "type a struct{ n int }", "b.go": "func f(x struct{ of *a }) int { return x.of.n }"}, 1, 0},
		"other names": {map[string]string{"a.go": "func f(b int) int { return b }", "b.go": "func b() {}"}, 0, 0},
	} {
		set := token.NewFileSet()
		var parsed []*ast.File
		for file, source := range c.sources {
			f, err := parser.ParseFile(set, file, "package x; "+source, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		if arrows := arrowsOf(t, set, parsed, nil); len(arrows) != c.arrows || len(upward(arrows)) != c.ups {
			t.Errorf("%s: %d arrows, %d upward, want %d and %d", name, len(arrows), len(upward(arrows)), c.arrows, c.ups)
		}
	}
}
