package ads

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

const waitMetric = `# HELP pilotlight_xds_waiting_proxies Proxies that came back and keep what they have, by reason: a source is lacking, or most of their clusters are gone at once.
# TYPE pilotlight_xds_waiting_proxies gauge
`

// When an operator has released the source for which a proxy waits, the proxy gets what there is at once, though it loses most.
func TestAProxyWaitsForNoSourceThatIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := testLimits()
		limits.Wipe = time.Minute
		r := &rig{running: runWith(t, limits, nil), t: t}
		mesh := adstest.Mesh(1, "a")
		mesh.Lacks = []string{"Consul"}
		r.Push(mesh, model.Change{})
		had := map[string]string{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			had[adstest.Cluster(name)] = "old"
		}
		back := r.connect(content.Delta)
		back.resume(content.CDS, had)
		back.ack(content.CDS)
		mesh = adstest.Mesh(1, "a")
		mesh.Forgone = true
		r.Push(mesh, model.Change{})
		synctest.Wait()
		if got := back.got(); !strings.Contains(got, adstest.Cluster("a")) || len(r.Lines()) > 0 {
			t.Errorf("released it gets %q; %q", got, r.Lines())
		}
	})
}

// A proxy that comes back while a source is lacking keeps what it has, and the pages say so; one without anything gets what
// there is. When the source is there without most of what it had, the proxy keeps that for the time of a mass removal, or until it
// is released.
func TestAProxyThatComesBackWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := testLimits()
		limits.Wipe = time.Minute
		r := &rig{running: runWith(t, limits, nil), t: t}
		mesh := adstest.Mesh(1, "a")
		mesh.Lacks = []string{"Consul", "Eureka"}
		r.Push(mesh, model.Change{})
		had := map[string]string{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			had[adstest.Cluster(name)] = "old"
		}
		back, fresh := r.connect(content.Delta), r.connect(content.Delta)
		if got := back.resume(content.CDS, had); got != "cds:" {
			t.Errorf("one that comes back gets %q", got)
		}
		if got := back.ack(content.CDS); got != "" {
			t.Errorf("then %q", got)
		}
		if got := fresh.sub(content.CDS); !strings.Contains(got, adstest.Cluster("a")) {
			t.Errorf("one without anything gets %q", got)
		}
		fresh.ack(content.CDS)
		wantLine := func(want, metric string) {
			t.Helper()
			lines := r.Lines()
			if len(lines) != 1 || !strings.Contains(lines[0], want) {
				t.Errorf("it says %q, want %q", lines, want)
			}
			if err := testutil.CollectAndCompare(r.Metrics(), strings.NewReader(waitMetric+metric), "pilotlight_xds_waiting_proxies"); err != nil {
				t.Error(err)
			}
		}
		wantLine("proxies: 1 came back and keep what they have, since nothing is known of source Consul and source Eureka: \""+adstest.NodeID+"\" since ",
			"pilotlight_xds_waiting_proxies{reason=\"removal\"} 0\npilotlight_xds_waiting_proxies{reason=\"source\"} 1\n")
		if _, err := r.Release(); err == nil {
			t.Error("a client that waits for a source is released")
		}
		var waits int
		for _, c := range r.Clients() {
			if c.Waits.Waits() {
				waits++
			}
		}
		if waits != 1 {
			t.Errorf("%d clients wait, want 1", waits)
		}

		r.Push(adstest.Mesh(1, "a"), model.Change{})
		synctest.Wait()
		wantLine("would lose 4 of 5 clusters", "pilotlight_xds_waiting_proxies{reason=\"removal\"} 1\npilotlight_xds_waiting_proxies{reason=\"source\"} 0\n")
		if log := r.log.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "most clusters of a proxy that came back are gone at once") || !strings.Contains(log, `sooner="discovery release proxies"`) {
			t.Errorf("the log has %s", log)
		}
		pass(time.Minute / 2)
		if got := back.got(); got != "" {
			t.Errorf("before the time is over it gets %q", got)
		}
		if n, err := r.Release(); n != 1 || err != nil {
			t.Errorf("released are %d, %v", n, err)
		}
		synctest.Wait()
		if got := back.got(); !strings.Contains(got, adstest.Cluster("a")) || len(r.Lines()) > 0 {
			t.Errorf("released it gets %q; %q", got, r.Lines())
		}
	})
}
