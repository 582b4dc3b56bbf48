package traffic

import (
	"math"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Traffic stays in its zone, leaves it when that fails, and is shared out where shares are set.
func TestLocality(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	near, far := w.Backend("near"), w.Backend("far")
	endpoints := []string{near.Endpoint(", locality: west/1/a"), far.Endpoint(", locality: east/1/a")}
	w.ServiceOf("app.test", "HTTP", endpoints...)
	w.ServiceOf("shares.test", "HTTP", endpoints...)
	w.Apply(
		"DestinationRule app", "host: app.test\ntrafficPolicy: {outlierDetection: {consecutive5xxErrors: 1, interval: 100ms, baseEjectionTime: 60s, maxEjectionPercent: 100}}",
		"DestinationRule shares", "host: shares.test\ntrafficPolicy: {loadBalancer: {localityLbSetting: {distribute: [{from: west/*, to: {\"west/*\": 20, \"east/*\": 80}}]}}}",
	)
	p := w.SidecarEnvoy("client", "west/1/a")
	p.Until(lab.From("near"), "http://app.test/")
	for range 20 {
		a, err := p.Get("http://app.test/")
		w.Check(err)
		if a.Echo.Backend != "near" {
			t.Fatalf("answered by %s while the near one is well", a.Echo.Backend)
		}
	}
	w.replay(p)
	const requests, share = 300, 0.2
	n := 0
	for range requests {
		a, err := p.Get("http://shares.test/")
		w.Check(err)
		if a.Echo.Backend == "near" {
			n++
		}
	}
	if bound := 5 * math.Sqrt(requests*share*(1-share)); math.Abs(float64(n)-requests*share) > bound {
		t.Errorf("the near one got %d of %d, want %.0f ± %.0f", n, requests, requests*share, bound)
	}
	near.Status.Store(500)
	p.Until(lab.From("far"), "http://app.test/")
	if n := p.Stat(`^cluster\.outbound\|80\|\|app\.test\.outlier_detection\.ejections_active$`); n != 1 {
		t.Errorf("%d endpoints are ejected, want the near one", n)
	}
}
