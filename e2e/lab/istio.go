package lab

import (
	"os/exec"
	"strings"
	"testing"
)

// IstioModule returns the directory of the module of Istio that e2e/wire pins: its tests read Istio's own tables there.
func IstioModule(t testing.TB) string {
	t.Helper()
	list := exec.Command("go", "list", "-f", "{{.Module.Dir}}", "istio.io/istio/pilot/cmd/pilot-agent")
	list.Dir = Path("e2e", "wire", "istio")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
