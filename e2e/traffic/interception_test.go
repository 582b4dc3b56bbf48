package traffic

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// A running Envoy takes the whole configuration of a sidecar under REDIRECT for every scenario: no response is refused,
// each listener is active, and the two virtual ones close what was not redirected to them rather than send it in a
// circle.
func TestInterceptedSidecarsTakeEverything(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redirect", "resolution", "rules", "locality"} {
		t.Run(name, func(t *testing.T) {
			in, out := lab.Port(t), lab.Port(t)
			mesh := filepath.Join(t.TempDir(), "mesh.yaml")
			text := fmt.Sprintf("proxyInboundListenPort: %d\nproxyListenPort: %d\n", in, out) + truth.Logged
			if err := os.WriteFile(mesh, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(lab.Path("discovery/xds/testdata/scenario", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, "--meshConfig", mesh)
			w.Check(os.WriteFile(filepath.Join(w.Config, "scenario.yaml"), data, 0o644))
			w.Check(lab.Eventually(lab.StopLimit, func() error {
				if !strings.Contains(w.Discovery.Log(), "pushed services=") || strings.Count(w.Discovery.Log(), "msg=pushed") < 2 {
					return fmt.Errorf("the scenario is not pushed:\n%s", w.Discovery.Log())
				}
				return nil
			}))
			var node struct {
				ID       string
				Metadata map[string]any
				Locality string
			}
			first, _, _ := strings.Cut(string(data), "\n")
			w.Check(json.Unmarshal([]byte(strings.TrimPrefix(first, "# ")), &node))
			p := w.RunEnvoy(node.ID, node.Locality, node.Metadata)
			w.Check(lab.Eventually(lab.StopLimit, func() error {
				active, warming := p.Stat(`^listener_manager\.total_listeners_active$`), p.Stat(`^listener_manager\.total_listeners_warming$`)
				if active < 3 || warming > 0 {
					return fmt.Errorf("%d listeners are active, %d warming", active, warming)
				}
				return nil
			}))
			for _, port := range []int{in, out} {
				c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), lab.StopLimit)
				w.Check(err)
				w.Check(c.SetDeadline(time.Now().Add(lab.StopLimit)))
				_, _ = c.Write([]byte("hello"))
				if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
					t.Errorf("port %d keeps a connection that was not redirected", port)
				}
				c.Close()
			}
			if n := p.Stat(`^cluster\.BlackHoleCluster\.upstream_cx_none_healthy$`); n < 2 {
				t.Errorf("%d connections ended in the black hole, want both", n)
			}
			w.replay(p)
		})
	}
}
