//go:build registries

package registries

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const stopLimit = 10 * time.Second

// Where things are: the binaries under test, built once from this tree; Envoy; and the registries that were fetched.
var bin, envoy, fetched string

func TestMain(m *testing.M) {
	began := time.Now()
	code := run(m)
	fmt.Printf("e2e/registries took %s\n", time.Since(began).Round(time.Second))
	os.Exit(code)
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pilotlight-registries-")
	if err == nil {
		defer os.RemoveAll(dir)
		bin = dir
		err = lab.Build(dir, "./cmd/agent", "./cmd/discovery", "./examples/bookinfo", "./examples/bookinfo/demo")
	}
	if err == nil {
		envoy, err = lab.FindEnvoy()
	}
	if err == nil {
		envoy, err = filepath.EvalSymlinks(envoy)
	}
	if err == nil {
		var root string
		root, err = lab.Root()
		fetched = filepath.Join(root, "bin", "registries")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/registries:", err)
		return 1
	}
	return m.Run()
}

// needs fails a test whose registry is not there.
func needs(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(fetched, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make e2e-registries, which fetches it", err)
	}
	return path
}
