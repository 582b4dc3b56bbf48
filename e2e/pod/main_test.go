//go:build pod

package pod

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const (
	stopLimit = 30 * time.Second
	proxyUID  = 1337
	appUID    = 1000
)

func TestMain(m *testing.M) {
	lab.Main(m, lab.Suite{Name: "e2e/pod", Root: true, Open: true}) // the proxy's user starts the programs
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
	argv = append(append([]string{"env"}, argv...), lab.Path("envoy-tools", "pod-init"))
	output, err := n.Command(append(argv, words...)...).CombinedOutput()
	return string(output), err
}
