package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Unknown hosts are let through, or answered 502; a ServiceEntry makes one known.
func TestEgress(t *testing.T) {
	t.Parallel()
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
	if n := p.stat(`^http\.outbound_.*\.downstream_rq_5xx$`); n == 0 {
		t.Error("Envoy counts no request that it answered itself")
	}
	w.apply("ServiceEntry outside", fmt.Sprintf(`
		hosts: [outside.test]
		location: MESH_EXTERNAL
		resolution: STATIC
		ports: [{number: 80, name: http, protocol: HTTP}]
		endpoints: [{address: %s, ports: {http: %d}}]
	`, outside.ip, outside.port))
	p.until(from("outside"), "http://outside.test/")
	if n := p.stat(`^cluster\.outbound\|80\|\|outside\.test\.upstream_rq_200$`); n == 0 {
		t.Error("Envoy counts no request to the ServiceEntry's cluster")
	}
	w.remove("Sidecar", "default")
	p.until(from("outside"), unknown)
}

// A service may be a name that Envoy resolves: its host, or its endpoints' names.
func TestNamesThatEnvoyResolves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.backendAt("127.0.0.1", "resolved")
	for name, test := range map[string]string{
		"localhost":     fmt.Sprintf("resolution: DNS\nports: [{number: 80, name: http, protocol: HTTP, targetPort: %d}]", b.port),
		"endpoint.test": fmt.Sprintf("resolution: DNS\nports: [{number: 80, name: http, protocol: HTTP}]\nendpoints: [{address: localhost, ports: {http: %d}}]", b.port),
		"one.test":      fmt.Sprintf("resolution: DNS_ROUND_ROBIN\nports: [{number: 80, name: http, protocol: HTTP}]\nendpoints: [{address: localhost, ports: {http: %d}}]", b.port),
	} {
		w.apply("ServiceEntry "+name, "hosts: ["+name+"]\nlocation: MESH_EXTERNAL\n"+test)
	}
	p := w.sidecar("client", "")
	for _, host := range []string{"localhost", "endpoint.test", "one.test"} {
		p.until(from("resolved"), "http://"+host+"/")
		cluster := `^cluster\.outbound\|80\|\|` + strings.ReplaceAll(host, ".", `\.`)
		if p.stat(cluster+`\.update_success$`) == 0 || p.stat(cluster+`\.upstream_rq_200$`) == 0 {
			t.Errorf("%s: Envoy counts %d resolutions and %d requests", host, p.stat(cluster+`\.update_success$`), p.stat(cluster+`\.upstream_rq_200$`))
		}
	}
}

// A Sidecar decides what its workloads see.
func TestScopes(t *testing.T) {
	t.Parallel()
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
