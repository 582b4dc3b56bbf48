package pilotlight_test

import (
	"io/fs"
	"os"
	"slices"
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
