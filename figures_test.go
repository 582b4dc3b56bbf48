package pilotlight_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// How large the house may be: bounds are lowered when it has become smaller, never raised.
const (
	mostFiles   = 783     // Go files without tests
	mostBytes   = 4171200 // of these
	mostWide    = 3131    // lines of these above width
	width       = 120     // columns; a tab counts tab
	tab         = 4
	mostMethods = 40
	mostFields  = 25
)

// large are the types that may have more than mostMethods methods or mostFields fields, with those of embedded types.
const unsplit = "it was so when this test was written, and no reason was found"

var large = map[string]string{
	"agent.decision":                   unsplit,
	"agent/envoy.Proxy":                unsplit,
	"agent/envoy.process":              unsplit,
	"discovery/ads.Server":             unsplit,
	"discovery/ads.discoveryService":   unsplit,
	"discovery/ads.objectStream":       unsplit,
	"discovery/ads.collector":          unsplit,
	"discovery/ads.certificateService": unsplit,
	"discovery/ads.stream":             unsplit,
	"discovery/ads/content.Share":      unsplit,
	"discovery/ads/protocol.Session":   unsplit,
	"discovery/model.Mesh":             unsplit,
	"discovery/model.judge":            unsplit,
	"discovery/plane.Config":           unsplit,
	"cmd/agent.settings":               flagTable,
	"cmd/discovery.settings":           flagTable,
}

const flagTable = "a table of flags has a field for each"

// TestFigures measures the code, and compares it with its bounds. make figures prints what it finds.
func TestFigures(t *testing.T) {
	var files, size, lines, wide, tests, testLines int
	rooms := map[string]int{}
	for _, name := range goFiles(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			tests, testLines = tests+1, testLines+bytes.Count(text, []byte("\n"))
			continue
		}
		files, size, lines = files+1, size+len(text), lines+bytes.Count(text, []byte("\n"))
		rooms[path.Dir(name)] += bytes.Count(text, []byte("\n"))
		wide += len(wideLines(string(text)))
	}
	t.Logf("Go without tests: %d files, %d bytes, %d lines, %d above %d columns", files, size, lines, wide, width)
	t.Logf("tests: %d files, %d lines", tests, testLines)
	t.Logf("discovery/model: %d lines", rooms["discovery/model"])
	for _, bound := range []struct {
		what      string
		got, most int
	}{{"files", files, mostFiles}, {"bytes", size, mostBytes}, {"wide lines", wide, mostWide}} {
		if bound.got > bound.most {
			t.Errorf("%d %s, want at most %d", bound.got, bound.what, bound.most)
		}
	}
	used := map[string]bool{}
	for _, found := range largeTypes(t) {
		t.Log(found.name, found.methods, "methods", found.fields, "fields")
		if used[found.name] = true; large[found.name] == "" {
			t.Errorf("%s has %d methods and %d fields, want at most %d and %d", found.name, found.methods, found.fields, mostMethods, mostFields)
		}
	}
	for name := range large {
		if !used[name] {
			t.Errorf("%s is not large", name)
		}
	}
}

// wideLines are the numbers of the lines above width.
func wideLines(text string) (out []int) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line)+(tab-1)*strings.Count(line, "\t") > width {
			out = append(out, number)
		}
	}
	return out
}

func TestWideLines(t *testing.T) {
	for line, want := range map[string]bool{
		strings.Repeat("x", 120):            false,
		strings.Repeat("x", 121):            true,
		strings.Repeat("é", 120) + "\n":     false,
		"\t" + strings.Repeat("x", 116):     false,
		"\t" + strings.Repeat("x", 117):     true,
		"a\n// " + strings.Repeat("x", 118): true,
	} {
		if got := wideLines(line); (len(got) == 1) != want {
			t.Errorf("%q: %v, want %t", line, got, want)
		}
	}
}

type largeType struct {
	name            string
	methods, fields int
}

// largeTypes are the types with too many methods or fields.
func largeTypes(t *testing.T) (out []largeType) {
	t.Helper()
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f",
		"{{.ImportPath}}\t{{.Export}}\t{{if not .Standard}}{{with .Module}}{{.Main}}{{end}}{{end}}\t{{.Dir}}\t{{.GoFiles}}", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports, set := map[string]string{}, token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(of string) (io.ReadCloser, error) { return os.Open(exports[of]) })
	var ours [][]string
	for line := range strings.Lines(string(listed)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[f[0]] = f[1]
		if f[2] == "true" {
			ours = append(ours, f)
		}
	}
	for _, f := range ours {
		var parsed []*ast.File
		for _, name := range strings.Fields(strings.Trim(f[4], "[]")) {
			file, err := parser.ParseFile(set, path.Join(f[3], name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		config := types.Config{Importer: imports}
		checked, err := config.Check(f[0], set, parsed, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range checked.Scope().Names() {
			of, ok := checked.Scope().Lookup(name).(*types.TypeName)
			if !ok || of.IsAlias() {
				continue
			}
			methods, fields := sizeOf(of.Type())
			if methods > mostMethods || fields > mostFields {
				short := strings.TrimPrefix(f[0], module+"/")
				out = append(out, largeType{fmt.Sprintf("%s.%s", short, name), methods, fields})
			}
		}
	}
	slices.SortFunc(out, func(a, b largeType) int { return strings.Compare(a.name, b.name) })
	return out
}

// sizeOf counts a type's methods and fields, with those of the types of ours that it embeds.
func sizeOf(of types.Type) (methods, fields int) {
	set := types.NewMethodSet(of)
	if !types.IsInterface(of) {
		set = types.NewMethodSet(types.NewPointer(of))
	}
	for method := range set.Methods() {
		if inModule(method.Obj()) {
			methods++
		}
	}
	return methods, fieldsOf(of)
}

func fieldsOf(of types.Type) (n int) {
	s, ok := of.Underlying().(*types.Struct)
	if !ok {
		return 0
	}
	for field := range s.Fields() {
		n++
		embedded := field.Type()
		if pointer, ok := embedded.(*types.Pointer); ok {
			embedded = pointer.Elem()
		}
		if named, ok := embedded.(*types.Named); ok && field.Embedded() && inModule(named.Obj()) {
			n += fieldsOf(named)
		}
	}
	return n
}

func inModule(of types.Object) bool {
	return of.Pkg() != nil && strings.HasPrefix(of.Pkg().Path(), module)
}
