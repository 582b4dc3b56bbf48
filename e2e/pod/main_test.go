//go:build pod

package pod

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const (
	stopLimit = 10 * time.Second
	proxyUID  = 1337
	appUID    = 1000
)

// Where things are: the project, and the binaries under test, built once from this tree as they are shipped.
var root, bin, envoy string

func TestMain(m *testing.M) {
	began := time.Now()
	code := run(m)
	fmt.Printf("e2e/pod took %s\n", time.Since(began).Round(time.Second))
	os.Exit(code)
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pilotlight-pod-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755) // the proxy's user looks in here
	}
	if err == nil && os.Getuid() != 0 {
		err = fmt.Errorf("needs root, for network namespaces and rules: run make e2e-pod as root")
	}
	if err == nil {
		root, err = lab.Root()
	}
	if err == nil {
		bin = dir
		err = lab.Build(dir, "./cmd/agent", "./cmd/discovery")
	}
	if err == nil {
		envoy, err = placeEnvoy(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/pod:", err)
		return 1
	}
	return m.Run()
}

// placeEnvoy puts the Envoy where the proxy's user can read it: the project may lie in somebody's home.
func placeEnvoy(dir string) (string, error) {
	found, err := lab.FindEnvoy()
	if err != nil {
		return "", err
	}
	if found, err = filepath.EvalSymlinks(found); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "envoy")
	if os.Link(found, path) == nil {
		return path, nil
	}
	output, err := exec.Command("cp", found, path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("copy Envoy: %w: %s", err, output)
	}
	return path, os.Chmod(path, 0o755)
}

// needs fails the test when a tool is not there; envoy-tools/packages installs them all.
func needs(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("needs %s, which is not in PATH: run envoy-tools/packages pod", tool)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// podInit runs the script in a namespace, with variables of the form NAME=value before its flags.
func podInit(n *lab.Netns, words ...string) (string, error) {
	argv := []string{}
	for len(words) > 0 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") {
		argv, words = append(argv, words[0]), words[1:]
	}
	argv = append(append([]string{"env"}, argv...), filepath.Join(root, "envoy-tools", "pod-init"))
	output, err := n.Command(append(argv, words...)...).CombinedOutput()
	return string(output), err
}
