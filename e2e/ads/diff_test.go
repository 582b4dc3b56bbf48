package ads

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

const weighed = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: weighed, namespace: default}
spec:
  hosts: [weighed.example]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints:
  - {address: 10.0.0.1, weight: %d, locality: %s}
  - {address: 10.0.0.2, weight: 2}
`

// While what discovery sends does not reach a real Envoy, config --diff shows the weight that it lacks; before and after that nothing.
func TestDiffUnderAFrozenStream(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *envoyLab) {
		l.Write("weighed.yaml", fmt.Sprintf(weighed, 3, "r/a"))
		e := l.start(0)
		says := func(lines ...string) {
			t.Helper()
			l.Check(lab.Eventually(lab.StopLimit, func() error {
				out, err := exec.CommandContext(t.Context(), filepath.Join(l.Bin, "discovery"), "config", "ads.default", "--diff", "--httpAddr", l.Discovery.HTTP, "--agentAddr", e.admin).CombinedOutput()
				same := strings.HasPrefix(string(out), "Envoy has what discovery has sent\n"+proxystatus.NotCompared)
				for _, want := range lines {
					if !strings.Contains(string(out), want) {
						return fmt.Errorf("it lacks %q: %w, %s", want, err, out)
					}
				}
				if (err == nil) != (len(lines) == 0) || same != (len(lines) == 0) {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			}))
		}
		says()
		thaw := l.relay.Freeze()
		t.Cleanup(thaw)
		l.Write("weighed.yaml", fmt.Sprintf(weighed, 4, "r/a"))
		says(`eds outbound|80||weighed.example differs: 10.0.0.1:80.weight: sent "4", Envoy has "3"`, "1 resources differ")
		thaw()
		says()
		e.Stop(lab.StopLimit)
	})
}
