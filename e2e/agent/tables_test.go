package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// One refused response of RDS or EDS ends Envoy's wait for all others of the type: it is LIVE while tables are on the way. It is not ready, nor
// takes over, before they have arrived.
func TestStartWithARefusedTable(t *testing.T) {
	t.Parallel()
	p := startPupil(t, startScript(t))
	p.clusters(p.good)
	p.listeners(httpListener("refused", p.inbound[0], "r"), httpListener("late", p.inbound[1], "late"))
	p.routes(routesTo("r", "good", 2))
	p.await("LIVE and unready", unready("LDSReceived: not yet: route table late"))
	p.routes(routesTo("r", "good", 2), routesTo("late", "good", 1))
	p.await("degraded by the refused one only", degraded("RDS: Envoy rejected an answer at"))
	p.serves(p.inbound[1])
	p.routes(routesTo("r", "good", 1), routesTo("late", "good", 1))
	p.await("healthy", healthy)
}

// A discovery that has just started does not know what this Envoy refuses.
func TestHandoverWithARefusedTable(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"side-by-side", "hot"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			lab.InNetworkNamespace(t, func(t *testing.T) {
				lab.WriteSysctl(t, "net/ipv4/tcp_migrate_req", "1") // else a handover side by side may reset connections
				handOverWithARefusedTable(t, way)
			})
		})
	}
}

func handOverWithARefusedTable(t *testing.T, way string) {
	override := filepath.Join(t.TempDir(), "override.json")
	if err := os.WriteFile(override, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startPupil(t, startScript(t), "--handover", way, "--handoverTimeout", "8s", "--bootstrapOverride", override)
	p.clusters(p.good)
	p.listeners(httpListener("l", p.inbound[1], "late"), httpListener("refused", p.inbound[0], "r"))
	p.routes(routesTo("late", "good", 1), routesTo("r", "good", 1))
	p.await("healthy", healthy)
	load := lab.StartSlowLoad(p.inbound[1], "http://"+p.inbound[1]+"/", 2, 2, 20*time.Millisecond)
	p.routes(routesTo("r", "good", 2))
	p.await("degraded", degraded("RDS: Envoy rejected an answer at"))
	change := func(seconds int) {
		p.must(os.WriteFile(override+"~", fmt.Appendf(nil, `{"stats_flush_interval": "%ds"}`, seconds), 0o600))
		p.must(os.Rename(override+"~", override))
	}
	change(7)
	p.must(p.AwaitLog("route table late"))
	p.routes(routesTo("late", "good", 1), routesTo("r", "good", 1))
	change(8)
	p.must(p.AwaitLog("handed over to a newcomer"))
	p.await("healthy", healthy)
	lab.Unharmed(t, load)
}
