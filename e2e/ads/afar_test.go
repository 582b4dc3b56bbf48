package ads

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// discovery status and config tell of a real Envoy over the port at which that is served: to a certificate of the root namespace, and not to the
// Envoy's own.
func TestStatusFromAfar(t *testing.T) {
	t.Parallel()
	secureADS(t, func(l *envoyLab, mount func(string, string, int64)) {
		own, admin := t.TempDir(), t.TempDir()
		mount("spiffe://cluster.local/ns/default/sa/ads", own, 2)
		mount("spiffe://cluster.local/ns/istio-system/sa/operator", admin, 3)
		l.present(own)
		e := l.start(0)
		l.answers("one")
		says := func(dir string, args ...string) (string, error) {
			out, err := exec.CommandContext(t.Context(), filepath.Join(l.Bin, "discovery"), append(args, "--discoveryAddress", l.relay.listener.Addr().String(), "--discoveryName", "discovery.test",
				"--tlsCertFile", filepath.Join(dir, "cert-chain.pem"), "--tlsKeyFile", filepath.Join(dir, "key.pem"), "--caCertFile", filepath.Join(dir, "root-cert.pem"))...).CombinedOutput()
			return string(out), err
		}
		for what, want := range map[string]string{
			"status": "default/ads  sidecar  spiffe://cluster.local/ns/default/sa/ads  envoy 1.40.0  SYNCED",
			"config": "cds outbound|80||" + echoHost + "\n",
		} {
			args := map[string][]string{"status": {"status"}, "config": {"config", "ads.default"}}[what]
			l.Check(lab.Eventually(lab.StopLimit, func() error { // the last ACK may come after the first request
				got, err := says(admin, args...)
				if err != nil || !strings.Contains(got, want) {
					err = fmt.Errorf("%s of an operator: %w\n%s", what, err, got)
				}
				return err
			}))
			if got, err := says(own, args...); err == nil || !strings.Contains(got, "refuses the certificate") || strings.Contains(got, echoHost) {
				t.Errorf("%s of a workload: %v\n%s", what, err, got)
			}
		}
		e.Stop(lab.StopLimit)
	})
}
