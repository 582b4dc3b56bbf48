package e2e

import (
	"fmt"
	"math"
	"net/http"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Weights split traffic of requests, and of connections.
func TestTrafficShifting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v1, v2 := versions(w, "app.test")
	vip := w.address()
	w.apply("ServiceEntry tcp", fmt.Sprintf(`
		hosts: [tcp.test]
		addresses: [%s]
		location: MESH_INTERNAL
		resolution: STATIC
		ports: [{number: 9000, name: tcp, protocol: TCP}]
		endpoints: [{address: %s, ports: {tcp: %d}, labels: {version: v1}}, {address: %s, ports: {tcp: %d}, labels: {version: v2}}]
	`, vip, v1.ip, v1.port, v2.ip, v2.port),
		"DestinationRule tcp", "host: tcp.test\nsubsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]",
		"VirtualService tcp", "hosts: [tcp.test]\ntcp: [{match: [{port: 9000}], route: [{destination: {host: tcp.test, subset: v1}, weight: 80}, {destination: {host: tcp.test, subset: v2}, weight: 20}]}]",
		"VirtualService app", "hosts: [app.test]\nhttp: [{route: [{destination: {host: app.test, subset: v1}, weight: 80}, {destination: {host: app.test, subset: v2}, weight: 20}]}]",
	)
	p := w.sidecar("client", "")
	p.until(status(200), "http://app.test/")
	direct := func(target string) (answer, error) {
		return exchange(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: stopLimit}, http.MethodGet, target)
	}
	w.check(lab.Eventually(stopLimit, func() error { _, err := direct("http://" + vip + ":9000/"); return err }))
	for name, get := range map[string]func() (answer, error){
		"HTTP": func() (answer, error) { return p.get("http://app.test/") },
		"TCP":  func() (answer, error) { return direct("http://" + vip + ":9000/") },
	} {
		const requests, share = 300, 0.2
		n := 0
		for range requests {
			a, err := get()
			w.check(err)
			if a.echo.Backend == "v2" {
				n++
			}
		}
		if bound := 5 * math.Sqrt(requests*share*(1-share)); math.Abs(float64(n)-requests*share) > bound {
			t.Errorf("%s: v2 got %d of %d, want %.0f ± %.0f", name, n, requests, requests*share, bound)
		}
	}
	if n := p.stat(`^cluster\.outbound\|9000\|v.\|tcp\.test\.upstream_cx_total$`); n < 300 {
		t.Errorf("Envoy counts %d connections to the subsets, want 300", n)
	}
	if n := p.stat(`^cluster\.outbound\|80\|v.\|app\.test\.upstream_rq_total$`); n < 300 {
		t.Errorf("Envoy counts %d requests to the subsets, want 300", n)
	}
}
