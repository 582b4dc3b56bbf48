package ads

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Files are judged beside what is served, for a real Envoy that is connected: its labels, the port that it does not get, and the hosts of a registry.
func TestValidateLive(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *envoyLab) {
		holder, err := net.Listen("tcp", l.proxy)
		l.Check(err)
		t.Cleanup(func() { _ = holder.Close() })
		e := l.launch(0)
		path := filepath.Join(t.TempDir(), "a.yaml")
		says := func(text string, lines ...string) {
			t.Helper()
			l.Check(os.WriteFile(path, []byte(text), 0o600))
			l.Check(lab.Eventually(2*lab.StopLimit, func() error {
				out, err := exec.CommandContext(t.Context(), filepath.Join(l.Bin, "discovery"), "validate", "--live", path, "--httpAddr", l.Discovery.HTTP).CombinedOutput()
				for _, want := range append(lines, "beside what discovery serves to 1 proxies") {
					if err == nil && !strings.Contains(string(out), want) {
						err = fmt.Errorf("it does not say %q", want)
					}
				}
				if err == nil && strings.Count(string(out), "warning: ") != len(lines) {
					err = fmt.Errorf("it has not %d warnings", len(lines))
				}
				if err != nil {
					return fmt.Errorf("%w\n%s", err, out)
				}
				return nil
			}))
		}
		const bound = "warning: Proxy default/ads: listener "
		const taken = "another process holds the port"
		says("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p}\nspec: {selector: {matchLabels: {app: none}}}\n",
			"1 connected proxies that this could select have no labels, so it does not: default/ads", bound)
		says("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v}\nspec:\n  hosts: ["+echoHost+"]\n"+
			"  http: [{route: [{destination: {host: hello, port: {number: 80}}, weight: 50}, {destination: {host: hallo, port: {number: 80}}, weight: 50}]}]\n",
			"no service has the host hallo.default.svc.cluster.local", bound)
		says("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: elsewhere}\nspec: {hosts: [hello.default.svc.cluster.local], exportTo: [.], " +
			"http: [{route: [{destination: {host: hello.default.svc.cluster.local, port: {number: 80}}}]}]}\n")
		says("apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: s}\nspec: {egress: [{hosts: ['./*']}]}\n", taken)
		l.Check(holder.Close())
		e.Stop(lab.StopLimit)
	}, "--registries", "Mock")
}
