package pilotlight_test

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	gomodule "golang.org/x/mod/module"
)

// made are the folders that the Makefile writes and git ignores.
var made = []string{".git", "bin", "run"}

// TestPaths holds the name of every file to what a Go module may contain: with one illegal name no Go proxy serves the
// module. Files that are not committed yet count too, so that a stray redirection of a shell is noticed early.
func TestPaths(t *testing.T) {
	faults, err := illegalPaths(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

func TestIllegalPathsAreFound(t *testing.T) {
	for _, name := range []string{"discovery/xds/*", "discovery/xds/:path", "discovery/xds/a\nb", "discovery/xds/%PREFIX(\"\")%"} {
		faults, err := illegalPaths(fstest.MapFS{name: {}, "discovery/xds/doc.go": {}})
		if err != nil || len(faults) != 1 {
			t.Errorf("%q: got %v, %v; want one fault", name, faults, err)
		}
	}
}

func illegalPaths(tree fs.FS) (faults []error, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(made, name):
			return fs.SkipDir
		case !d.IsDir():
			if err := gomodule.CheckFilePath(name); err != nil {
				faults = append(faults, err)
			}
		}
		return nil
	})
	return faults, err
}

// named finds paths of the repository, and tests, in a page.
var (
	namedPath = regexp.MustCompile(`(?:^|[^\w/.-])((?:agent|bootstrap|cmd|deploy|discovery|docs|e2e|envoy-tools|examples|internal|node|templates|watch)/[\w./-]+)`)
	namedTest = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	examples  = regexp.MustCompile(`/[A-Z]+$|-ARCH\b|^deploy/discovery$|^discovery/v1$|^cmd/indexdb$|^TestName$`) // a placeholder, or of another project
)

// absentFrom returns what a page names that is not there. The beginning of a name counts: as in docs/design/042, or for go test -run.
func absentFrom(page string, tree fs.FS, tests []string) (out []string) {
	for _, m := range namedPath.FindAllStringSubmatch(page, -1) {
		name := strings.TrimRight(m[1], "./")
		found, err := fs.Glob(tree, name+"*")
		if err == nil && len(found) == 0 && !examples.MatchString(name) {
			out = append(out, name)
		}
	}
	for _, name := range namedTest.FindAllString(page, -1) {
		if !examples.MatchString(name) && !slices.ContainsFunc(tests, func(test string) bool { return strings.HasPrefix(test, name) }) {
			out = append(out, name)
		}
	}
	return out
}

func TestPagesNameWhatIsThere(t *testing.T) {
	pages, tests := 0, slices.Collect(maps.Keys(functions(t)))
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(made, name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		pages++
		for _, what := range absentFrom(string(text), os.DirFS("."), tests) {
			t.Errorf("%s names %s, which is not there", name, what)
		}
		return nil
	})
	if err != nil || pages < 50 {
		t.Fatalf("%d pages, %v", pages, err)
	}
	tree := fstest.MapFS{"discovery/xds/doc.go": {}}
	const page = "see discovery/xds, discovery/xds/gone.go, `TestIs`, TestGone, and discovery/registry/NAME"
	if got := absentFrom(page, tree, []string{"TestIsThere"}); !slices.Equal(got, []string{"discovery/xds/gone.go", "TestGone"}) {
		t.Errorf("found %q", got)
	}
}
