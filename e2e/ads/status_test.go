package ads

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// discovery status says how far a real Envoy is, what it refuses in its own words, and the notes about it; discovery config
// names what it was sent.
func TestStatusOfARealEnvoy(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *envoyLab) {
		says := func(args ...string) string {
			out, err := exec.CommandContext(t.Context(), filepath.Join(l.Bin, "discovery"), append(args, "--httpAddr", l.Discovery.HTTP)...).CombinedOutput()
			if err != nil {
				return fmt.Sprint(err, ": ", string(out))
			}
			return string(out)
		}
		shows := func(what string, wants ...string) {
			t.Helper()
			l.Check(lab.Eventually(lab.StopLimit, func() error {
				got := says("status", "default/ads")
				for _, want := range wants {
					if !strings.Contains(got, want) {
						return fmt.Errorf("%s: status lacks %q:\n%s", what, want, got)
					}
				}
				return nil
			}))
		}
		e := l.start(0)
		shows("at first", "default/ads  sidecar  none      envoy 1.40.0  SYNCED  SYNCED  SYNCED  SYNCED  SYNCED")
		if got := says("config", "ads.default", "clusters"); !strings.Contains(got, "cds outbound|80||"+echoHost+"\n") || strings.Contains(got, "rds ") {
			t.Errorf("config is\n%s", got)
		}
		l.Write("rule.yaml", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: rule, namespace: default}
spec:
  hosts: [%s]
  http:
  - match: [{uri: {regex: "%s"}}]
    route: [{destination: {host: %s}}]
`, echoHost, tooLong, echoHost))
		shows("a rule that Envoy refuses", "NACKED, 1 refused", "default/ads: refuses RDS http_proxy "+echoHost)
		e.Stop(lab.StopLimit)
		l.Check(lab.Eventually(lab.StopLimit, func() error {
			if got := says("status", "default/ads"); !strings.Contains(got, `no proxy "default/ads" is connected`) {
				return fmt.Errorf("of an Envoy that is gone:\n%s", got)
			}
			return nil
		}))
	})
}
