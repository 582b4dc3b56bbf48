package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
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
			p.must(os.WriteFile(override+"~", []byte(`{"stats_flush_interval": "7s"}`), 0o600))
			p.must(os.Rename(override+"~", override))
			p.must(p.AwaitLog("route table late"))
			p.must(lab.Eventually(lab.StopLimit, func() error { // the newcomer has ended too
				var a agentStatus
				body, err := lab.Get("http://" + p.status + "/status")
				if err == nil {
					err = json.Unmarshal([]byte(body), &a)
				}
				if err == nil && (a.Handover != "refused" || len(a.Epochs) != 1) {
					err = fmt.Errorf("the status is %+v, want a refused handover", a)
				}
				return err
			}))
			p.routes(routesTo("late", "good", 1), routesTo("r", "good", 1))
			p.Signal(syscall.SIGHUP)
			p.must(p.AwaitLog("handed over to a newcomer"))
			p.await("healthy", healthy)
			lab.Unharmed(t, load)
		})
	}
}
