//go:build wire

package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const stopLimit = 10 * time.Second

// Where things are: the binaries under test, built once from this tree; Envoy; and the peers that were fetched.
var bin, envoy, peers string

func TestMain(m *testing.M) {
	began := time.Now()
	code := run(m)
	fmt.Printf("e2e/wire took %s\n", time.Since(began).Round(time.Second))
	os.Exit(code)
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pilotlight-wire-")
	if err == nil {
		defer os.RemoveAll(dir)
		bin = dir
		err = lab.Build(dir, "./cmd/agent", "./cmd/discovery", "./e2e/wire/peer")
	}
	if err == nil {
		envoy, err = lab.FindEnvoy()
	}
	if err == nil {
		envoy, err = filepath.EvalSymlinks(envoy)
	}
	if err == nil {
		peers, err = findPeers()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/wire:", err)
		return 1
	}
	return m.Run()
}

// findPeers returns the directory of what fetch-peers fetches.
func findPeers() (string, error) {
	root, err := lab.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "peers")
	for _, name := range []string{"pilot-agent", "pilot-discovery", "envoy_bootstrap.json", "java", "java-1.68.0", "python"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%w: run make e2e-wire, which fetches it", err)
		}
	}
	return dir, nil
}
