package handoff

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An image that was built with cgo says so before anything is begun: Hold would fail at the end.
func TestAble(t *testing.T) {
	for cgo, want := range map[string]string{"0": "<nil> <nil>\n", "1": "this agent was built with cgo, "} {
		program := filepath.Join(t.TempDir(), "able")
		build := exec.Command("go", "build", "-o", program, "./testdata/able")
		build.Env = append(build.Environ(), "CGO_ENABLED="+cgo)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := exec.Command(program).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("CGO_ENABLED=%s: %v, %q, want %q", cgo, err, out, want)
		}
	}
}
