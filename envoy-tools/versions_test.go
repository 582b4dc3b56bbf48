package envoytools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// exceptions are the modules of which a program of another project needs another version than the others, by the directory of its go.mod.
// A name that ends in a slash stands for all modules below it.
var exceptions = []struct{ dir, module, reason string }{
	{"wire/istio", "k8s.io/", "Istio's own interfaces of client-go lack the methods of newer ones"},
	{"wire/istio", "sigs.k8s.io/", "those that Istio's client-go needs"},
	{"wire/istio", "github.com/envoyproxy/go-control-plane/contrib", "Istio uses packages of it that Consul's version does not have, and Consul one that was removed"},
	{"registries/nomad", "github.com/opencontainers/runtime-spec", "runc 1.2, which Nomad needs"},
	{"registries/nomad", "github.com/container-storage-interface/spec", "Nomad uses fields that were removed"},
	{"registries/nomad", "github.com/docker/cli", "likewise"},
	{"registries/nomad", "github.com/hashicorp/go-bexpr", "Consul calls functions that Nomad's version does not have"},
}

// The programs of other projects that tests run are compiled from several go.mods. A dependency has one version in all of them and in the
// product, because go compiles it once then: without that, a build takes half as long again. After "go get MODULE@VERSION" in one of the
// directories, run it in the others too.
func TestProgramsShareVersions(t *testing.T) {
	files, err := filepath.Glob("../e2e/*/*/go.mod")
	if err != nil || len(files) < 7 {
		t.Fatalf("the go.mods of programs: %q, %v", files, err)
	}
	type use struct{ version, file string }
	common, used := map[string]use{}, make([]bool, len(exceptions))
	excepted := func(dir, module string) int {
		for i, e := range exceptions {
			if e.dir == dir && (e.module == module || strings.HasSuffix(e.module, "/") && strings.HasPrefix(module, e.module)) {
				return i
			}
		}
		return -1
	}
	type difference struct {
		exception int
		module    string
		use
	}
	var differences []difference
	for _, file := range append([]string{"../go.mod"}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := modfile.Parse(file, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.TrimPrefix(filepath.Dir(file), "../e2e/")
		for _, r := range parsed.Require {
			here := use{r.Mod.Version, file}
			if i := excepted(dir, r.Mod.Path); i >= 0 {
				differences = append(differences, difference{i, r.Mod.Path, here})
				continue
			}
			first, found := common[r.Mod.Path]
			if !found {
				common[r.Mod.Path] = here
			} else if first.version != here.version {
				t.Errorf("%s: %s %s, want %s, as in %s", file, r.Mod.Path, here.version, first.version, first.file)
			}
		}
	}
	for _, d := range differences {
		if c, found := common[d.module]; found && c.version != d.version {
			used[d.exception] = true
		}
	}
	for i, e := range exceptions {
		if !used[i] {
			t.Errorf("%s: %s needs no exception", e.dir, e.module)
		}
	}
}
