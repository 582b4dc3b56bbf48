package e2e

import (
	"fmt"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Unknown hosts are let through, or answered 502; a ServiceEntry makes one known, by address or by name.
func TestEgress(t *testing.T) {
	w := newWorld(t)
	outside := w.backend("outside")
	unknown := fmt.Sprintf("http://%s:%d/", outside.ip, outside.port)
	w.service("inside.test", w.backend("inside"))
	p := w.sidecar("client", "")
	p.until(from("outside"), unknown)
	if n := p.stat(`^cluster\.PassthroughCluster\.upstream_rq_total$`); n == 0 {
		t.Error("Envoy counts no request to the PassthroughCluster")
	}
	w.apply("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}")
	p.until(status(502), unknown)
	p.until(status(200), "http://inside.test/")
	w.apply("ServiceEntry outside", fmt.Sprintf(`
		hosts: [outside.test]
		location: MESH_EXTERNAL
		resolution: DNS
		ports: [{number: 80, name: http, protocol: HTTP}]
		endpoints: [{address: %s, ports: {http: %d}}]
	`, outside.ip, outside.port))
	p.until(from("outside"), "http://outside.test/")
	w.apply("ServiceEntry name", fmt.Sprintf(`
		hosts: [localhost]
		location: MESH_EXTERNAL
		resolution: DNS_ROUND_ROBIN
		ports: [{number: 80, name: http, protocol: HTTP, targetPort: %d}]
	`, mustPort(w)))
	p.until(status(503), "http://localhost/") // it is resolved; nobody listens there
	w.remove("Sidecar", "default")
	p.until(from("outside"), unknown)
}

func mustPort(w *world) int {
	port, err := lab.FreePort()
	w.check(err)
	return port
}

// A Sidecar decides what its workloads see.
func TestScopes(t *testing.T) {
	w := newWorld(t)
	w.service("a.test", w.backend("a"))
	w.service("b.test", w.backend("b"))
	w.apply("Sidecar client", "workloadSelector: {labels: {app: client}}\negress: [{hosts: [\"./a.test\"]}]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}")
	p := w.sidecar("client", "")
	p.until(from("a"), "http://a.test/")
	p.until(status(502), "http://b.test/")
	if n := p.stat(`^cluster\.outbound\|80\|\|b\.test\.`); n != 0 {
		t.Errorf("a proxy is told of b.test, which its Sidecar does not import")
	}
	other := w.sidecar("other", "")
	other.until(from("b"), "http://b.test/")
}
