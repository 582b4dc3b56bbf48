package traffic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Unknown hosts are let through, or answered 502; a ServiceEntry makes one known.
func TestEgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outside := w.Backend("outside")
	unknown := fmt.Sprintf("http://%s:%d/", outside.IP, outside.Port)
	w.Service("inside.test", w.Backend("inside"))
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.From("outside"), unknown)
	if n := p.Stat(`^cluster\.PassthroughCluster\.upstream_rq_total$`); n == 0 {
		t.Error("Envoy counts no request to the PassthroughCluster")
	}
	w.replay(p)
	w.Apply("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}")
	p.Until(lab.Status(502), unknown)
	p.Until(lab.Status(200), "http://inside.test/")
	if n := p.Stat(`^http\.outbound_.*\.downstream_rq_5xx$`); n == 0 {
		t.Error("Envoy counts no request that it answered itself")
	}
	w.Apply("ServiceEntry outside", fmt.Sprintf(`
		hosts: [outside.test]
		location: MESH_EXTERNAL
		resolution: STATIC
		ports: [{number: 80, name: http, protocol: HTTP}]
		endpoints: [{address: %s, ports: {http: %d}}]
	`, outside.IP, outside.Port))
	p.Until(lab.From("outside"), "http://outside.test/")
	if n := p.Stat(`^cluster\.outbound\|80\|\|outside\.test\.upstream_rq_200$`); n == 0 {
		t.Error("Envoy counts no request to the ServiceEntry's cluster")
	}
	w.replay(p)
	w.Remove("Sidecar", "default")
	p.Until(lab.From("outside"), unknown)
}

// A service may be a name that Envoy resolves: its host, or its endpoints' names.
func TestNamesThatEnvoyResolves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.BackendAt("127.0.0.1", "resolved")
	for name, test := range map[string]string{
		"localhost":     fmt.Sprintf("resolution: DNS\nports: [{number: 80, name: http, protocol: HTTP, targetPort: %d}]", b.Port),
		"endpoint.test": fmt.Sprintf("resolution: DNS\nports: [{number: 80, name: http, protocol: HTTP}]\nendpoints: [{address: localhost, ports: {http: %d}}]", b.Port),
		"one.test":      fmt.Sprintf("resolution: DNS_ROUND_ROBIN\nports: [{number: 80, name: http, protocol: HTTP}]\nendpoints: [{address: localhost, ports: {http: %d}}]", b.Port),
	} {
		w.Apply("ServiceEntry "+name, "hosts: ["+name+"]\nlocation: MESH_EXTERNAL\n"+test)
	}
	p := w.SidecarEnvoy("client", "")
	for _, host := range []string{"localhost", "endpoint.test", "one.test"} {
		p.Until(lab.From("resolved"), "http://"+host+"/")
		cluster := `^cluster\.outbound\|80\|\|` + strings.ReplaceAll(host, ".", `\.`)
		if p.Stat(cluster+`\.update_success$`) == 0 || p.Stat(cluster+`\.upstream_rq_200$`) == 0 {
			t.Errorf("%s: Envoy counts %d resolutions and %d requests", host, p.Stat(cluster+`\.update_success$`), p.Stat(cluster+`\.upstream_rq_200$`))
		}
	}
	w.replay(p)
}

// A program that names its hosts to an HTTP proxy has no original destination: a service without resolution has the endpoints that
// are known, else Envoy resolves the host, and nothing else where unknown hosts are closed.
func TestServicesWithoutAnOriginalDestination(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resolved, known := w.BackendAt("127.0.0.1", "resolved"), w.Backend("known")
	entry := func(name, host string, port int, rest string) {
		w.Apply("ServiceEntry "+name, fmt.Sprintf("hosts: [%q]\nlocation: MESH_EXTERNAL\nports: [{number: %d, name: http, protocol: HTTP}]\n%s", host, port, rest))
	}
	w.Apply("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}")
	entry("below", "*.localhost", resolved.Port, "resolution: NONE")
	entry("chosen", "localhost", resolved.Port, "resolution: NONE\nworkloadSelector: {labels: {app: chosen}}")
	w.Service("passed.test", known)
	w.Apply("DestinationRule passed", "host: passed.test\ntrafficPolicy: {loadBalancer: {simple: PASSTHROUGH}}")
	p := w.SidecarEnvoy("client", "")
	one, below := fmt.Sprintf("http://localhost:%d/", resolved.Port), fmt.Sprintf("http://a.localhost:%d/", resolved.Port)
	p.Until(lab.From("resolved"), one)
	p.Until(lab.From("resolved"), below)
	p.Until(lab.From("known"), "http://passed.test/")
	p.Until(lab.Status(502), "http://127.0.0.1/")
	w.Apply("WorkloadEntry known", fmt.Sprintf("address: %s\nlabels: {app: chosen}\nports: {http: %d}", known.IP, known.Port))
	p.Until(lab.From("known"), one)
	w.Remove("WorkloadEntry", "known")
	p.Until(lab.From("resolved"), one)
	w.replay(p)
	w.Apply("DestinationRule one", "host: \"*.localhost\"\ntrafficPolicy: {tls: {mode: SIMPLE, sni: other.test, insecureSkipVerify: true}}")
	p.Until(lab.Status(503), below)
	p.Until(lab.From("resolved"), one)
}

// A Sidecar decides what its workloads see.
func TestScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Service("a.test", w.Backend("a"))
	w.Service("b.test", w.Backend("b"))
	w.Apply("Sidecar client", "workloadSelector: {labels: {app: client}}\negress: [{hosts: [\"./a.test\"]}]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}")
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.From("a"), "http://a.test/")
	p.Until(lab.Status(502), "http://b.test/")
	if n := p.Stat(`^cluster\.outbound\|80\|\|b\.test\.`); n != 0 {
		t.Errorf("a proxy is told of b.test, which its Sidecar does not import")
	}
	other := w.SidecarEnvoy("other", "")
	other.Until(lab.From("b"), "http://b.test/")
	w.replay(p)
	w.replay(other)
}
