package traffic

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
	vip := w.Address()
	w.Apply("ServiceEntry tcp", fmt.Sprintf(`
		hosts: [tcp.test]
		addresses: [%s]
		location: MESH_INTERNAL
		resolution: STATIC
		ports: [{number: 9000, name: tcp, protocol: TCP}]
		endpoints: [{address: %s, ports: {tcp: %d}, labels: {version: v1}}, {address: %s, ports: {tcp: %d}, labels: {version: v2}}]
	`, vip, v1.IP, v1.Port, v2.IP, v2.Port),
		"DestinationRule tcp", "host: tcp.test\nsubsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]",
		"VirtualService tcp", "hosts: [tcp.test]\ntcp: [{match: [{port: 9000}], route: [{destination: {host: tcp.test, subset: v1}, weight: 80}, {destination: {host: tcp.test, subset: v2}, weight: 20}]}]",
		"VirtualService app", "hosts: [app.test]\nhttp: [{route: [{destination: {host: app.test, subset: v1}, weight: 80}, {destination: {host: app.test, subset: v2}, weight: 20}]}]",
	)
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.Status(200), "http://app.test/")
	direct := func(target string) (lab.Answer, error) {
		return lab.Exchange(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: lab.StopLimit}, http.MethodGet, target)
	}
	w.Check(lab.Eventually(lab.StopLimit, func() error { _, err := direct("http://" + vip + ":9000/"); return err }))
	for name, get := range map[string]func() (lab.Answer, error){
		"HTTP": func() (lab.Answer, error) { return p.Get("http://app.test/") },
		"TCP":  func() (lab.Answer, error) { return direct("http://" + vip + ":9000/") },
	} {
		const requests, share = 300, 0.2
		n := 0
		for range requests {
			a, err := get()
			w.Check(err)
			if a.Echo.Backend == "v2" {
				n++
			}
		}
		if bound := 5 * math.Sqrt(requests*share*(1-share)); math.Abs(float64(n)-requests*share) > bound {
			t.Errorf("%s: v2 got %d of %d, want %.0f ± %.0f", name, n, requests, requests*share, bound)
		}
	}
	if n := p.Stat(`^cluster\.outbound\|9000\|v.\|tcp\.test\.upstream_cx_total$`); n < 300 {
		t.Errorf("Envoy counts %d connections to the subsets, want 300", n)
	}
	if n := p.Stat(`^cluster\.outbound\|80\|v.\|app\.test\.upstream_rq_total$`); n < 300 {
		t.Errorf("Envoy counts %d requests to the subsets, want 300", n)
	}
	w.replay(p)
}
