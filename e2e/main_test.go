package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Where the binaries under test are: built once from this tree, as they are shipped.
var bin, envoy string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pilotlight-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		bin = dir
		err = build(dir)
	}
	if err == nil {
		envoy, err = lab.FindEnvoy()
	}
	if err == nil {
		err = os.Symlink(envoy, filepath.Join(dir, "envoy"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

func build(dir string) error {
	command := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir,
		"./cmd/agent", "./cmd/discovery", "./examples/bookinfo", "./examples/bookinfo/demo")
	command.Dir = ".."
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w:\n%s", err, output)
	}
	return nil
}
