package inject_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/internal/golden"
)

func injector(t *testing.T, config string) *inject.Injector {
	t.Helper()
	c, err := inject.ReadConfig("nativeSidecar: true\n" + config)
	if err != nil {
		t.Fatal(err)
	}
	i, err := inject.New(c, inject.DefaultTemplate)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// Each kind of workload is injected as in its golden file, with its notes; a second injection changes nothing.
func TestKinds(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	i := injector(t, "image: example/proxy:1")
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			out, notes, err := i.Manifest(text, "default", nil)
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, n := range notes {
				said += "# " + n.String() + "\n"
			}
			golden.Text(t, said+string(out))
			again, _, err := i.Manifest(out, "default", nil)
			if err != nil || !bytes.Equal(again, out) {
				t.Errorf("injected again it is another: %v\n%s", err, again)
			}
		})
	}
}
