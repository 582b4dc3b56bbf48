package traffic

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// validate --live names a selector that no connected sidecar has, before the policy is served.
func TestValidateLiveOfConnectedSidecars(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "details")
	path := filepath.Join(t.TempDir(), "policy.yaml")
	for app, want := range map[string]string{"details": "warnings: 0; beside what discovery serves to 1 proxies", "detials": "app=detials"} {
		m.Check(os.WriteFile(path, []byte("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p}\n"+
			"spec: {selector: {matchLabels: {app: "+app+"}}, rules: [{}]}\n"), 0o600))
		m.Check(lab.Eventually(lab.StopLimit, func() error {
			out, err := exec.CommandContext(t.Context(), filepath.Join(m.Bin, "discovery"), "validate", "--live", path, "--httpAddr", m.Discovery.HTTP).CombinedOutput()
			if err != nil || !strings.Contains(string(out), want) {
				return fmt.Errorf("%s: want %q: %w\n%s", app, want, err, out)
			}
			return nil
		}))
	}
}
