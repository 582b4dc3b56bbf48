package e2e

import (
	"math"
	"testing"
)

// Traffic stays in its zone, leaves it when that fails, and is shared out where shares are set.
func TestLocality(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	near, far := w.backend("near"), w.backend("far")
	endpoints := []string{near.endpoint(", locality: west/1/a"), far.endpoint(", locality: east/1/a")}
	w.serviceOf("app.test", "HTTP", endpoints...)
	w.serviceOf("shares.test", "HTTP", endpoints...)
	w.apply(
		"DestinationRule app", "host: app.test\ntrafficPolicy: {outlierDetection: {consecutive5xxErrors: 1, interval: 100ms, baseEjectionTime: 60s, maxEjectionPercent: 100}}",
		"DestinationRule shares", "host: shares.test\ntrafficPolicy: {loadBalancer: {localityLbSetting: {distribute: [{from: west/*, to: {\"west/*\": 20, \"east/*\": 80}}]}}}",
	)
	p := w.sidecar("client", "west/1/a")
	p.until(from("near"), "http://app.test/")
	for range 20 {
		a, err := p.get("http://app.test/")
		w.check(err)
		if a.echo.Backend != "near" {
			t.Fatalf("answered by %s while the near one is well", a.echo.Backend)
		}
	}
	const requests, share = 300, 0.2
	n := 0
	for range requests {
		a, err := p.get("http://shares.test/")
		w.check(err)
		if a.echo.Backend == "near" {
			n++
		}
	}
	if bound := 5 * math.Sqrt(requests*share*(1-share)); math.Abs(float64(n)-requests*share) > bound {
		t.Errorf("the near one got %d of %d, want %.0f ± %.0f", n, requests, requests*share, bound)
	}
	near.status.Store(500)
	p.until(from("far"), "http://app.test/")
	if n := p.stat(`^cluster\.outbound\|80\|\|app\.test\.outlier_detection\.ejections_active$`); n != 1 {
		t.Errorf("%d endpoints are ejected, want the near one", n)
	}
}
