//go:build wire

package wire

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// signedMesh is a client and a server with HTTP and TCP under STRICT, whose certificates are of discovery's authority.
type signedMesh struct {
	lab.Lab
	t         *testing.T
	addresses string
	proxy     string         // host:port of the client's outbound HTTP
	tcp       string         // host:port of the server's TCP
	status    map[string]int // port, by agent
}

func startSignedMesh(t *testing.T) *signedMesh {
	t.Helper()
	dir := lab.ShortDir(t)
	m := &signedMesh{Lab: lab.New(dir), t: t, addresses: lab.Addresses(), status: map[string]int{"client": lab.Port(t), "server": lab.Port(t)}}
	config, authority, secure := filepath.Join(dir, "config"), filepath.Join(dir, "ca"), fmt.Sprintf("127.0.0.1:%d", lab.Port(t))
	m.check(os.Mkdir(config, 0o755))
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "app") }))
	t.Cleanup(app.Close)
	web, raw, number, proxy := lab.Port(t), lab.Port(t), lab.Port(t), lab.Port(t)
	m.proxy, m.tcp = fmt.Sprintf("127.0.0.1:%d", proxy), fmt.Sprintf("%s3:%d", m.addresses, number)
	m.check(os.WriteFile(filepath.Join(config, "mesh.yaml"), fmt.Appendf(nil, `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: server, namespace: default}
spec:
  hosts: [server.default.svc.cluster.local]
  resolution: STATIC
  location: MESH_INTERNAL
  addresses: [%[1]s3]
  ports: [{number: 80, name: http, protocol: HTTP}, {number: %[2]d, name: tcp, protocol: TCP}]
  endpoints: [{address: %[1]s2, ports: {http: %[3]d, tcp: %[4]d}, labels: {app: server}, serviceAccount: server}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: server, namespace: default}
spec:
  workloadSelector: {labels: {app: server}}
  ingress:
  - {port: {number: %[3]d, name: http, protocol: HTTP}, defaultEndpoint: %[5]q}
  - {port: {number: %[4]d, name: tcp, protocol: TCP}, defaultEndpoint: "127.0.0.1:%[6]d"}
  egress: [{hosts: [./nobody.test]}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: default}
spec: {mtls: {mode: STRICT}}
`, m.addresses, number, web, raw, strings.TrimPrefix(app.URL, "http://"), lab.Doubling(t)), 0o600))
	discovery, err := m.Discovery(config, "--ca", "--caDir", authority, "--secureGRPCAddr", secure)
	m.check(err)
	t.Cleanup(func() { discovery.Stop(stopLimit) })
	for i, name := range []string{"client", "server"} {
		token, err := exec.Command(filepath.Join(m.Bin, "discovery"), "token", "create", "--namespace", "default", "--service-account", name, "--caDir", authority).Output()
		m.check(err)
		file := filepath.Join(dir, name+".token")
		m.check(os.WriteFile(file, token, 0o600))
		port := 0
		if name == "client" {
			port = proxy
		}
		agent, err := m.Sidecar(lab.Workload{
			Name: name, App: name, IP: fmt.Sprintf("%s%d", m.addresses, i+1), ProxyPort: port, Discovery: secure,
			Flags: []string{"--caAddress", secure, "--caRoots", filepath.Join(authority, "root-cert.pem"), "--caToken", file, "--statusPort", fmt.Sprint(m.status[name])},
		})
		m.check(err)
		t.Cleanup(func() { agent.Stop(stopLimit) })
		m.check(agent.AwaitReady())
	}
	return m
}

func (m *signedMesh) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// send sends requests and talks over connections, one of which is closed.
func (m *signedMesh) send() error {
	if _, err := lab.GetThrough(m.proxy, "http://server.default.svc.cluster.local/"); err != nil {
		return err
	}
	c, err := lab.Talk(m.tcp)
	if err == nil {
		c.Close()
	}
	return err
}

// Under mutual TLS a real Prometheus answers Kiali's questions of TCP and of security, and those of Istio's own dashboards of TCP.
func TestPrometheusAnswersUnderMutualTLS(t *testing.T) {
	t.Parallel()
	m := startSignedMesh(t)
	p := startPrometheus(t, fmt.Sprintf("127.0.0.1:%d/stats/prometheus", m.status["client"]), fmt.Sprintf("127.0.0.1:%d/stats/prometheus", m.status["server"]))
	m.check(lab.Eventually(stopLimit, func() error {
		if err := m.send(); err != nil {
			return err
		}
		got, err := p.query(`count_over_time(istio_tcp_sent_bytes_total[1m]) >= 3`)
		if err != nil || len(got) < 2 {
			return fmt.Errorf("both agents count no bytes yet: %v, %w", got, err)
		}
		return nil
	}))
	p.between = func() { _ = m.send() } // what is counted tells
	kept, err := lab.Talk(m.tcp)
	m.check(err)
	defer kept.Close()

	const client, server = "spiffe://cluster.local/ns/default/sa/client", "spiffe://cluster.local/ns/default/sa/server"
	for _, r := range kialiReporters {
		for _, metric := range []string{"istio_tcp_received_bytes_total", "istio_tcp_sent_bytes_total"} {
			unserved, incoming, outgoing := kiali(metric, kialiTCP, r.app, r.reporter, "default")
			p.edges(unserved, kialiTCP, nil)
			p.edges(incoming, kialiTCP, map[string]map[string]string{"client -> unknown at server.default": {"response_flags": "-"}})
			p.edges(outgoing, kialiTCP, map[string]map[string]string{"client.default -> server at server": {"response_flags": "-", "destination_service_namespace": "default"}})
		}
		_, incoming, outgoing := kiali("istio_requests_total", kialiRequests, "", r.reporter, "default")
		p.edges(incoming, kialiRequests, map[string]map[string]string{"client -> unknown at server.default": {"response_code": "200"}})
		p.edges(outgoing, kialiRequests, map[string]map[string]string{"client.default -> server at server": {"response_code": "200"}})
		p.edges(kialiPadlock(r.app, r.reporter, "default"), kialiSecurity, map[string]map[string]string{"client -> unknown at server.default": {
			"connection_security_policy": "mutual_tls", "source_principal": client, "destination_principal": server,
		}})
	}
	// Istio's dashboards of TCP, by both reporters; one connection is open all the time.
	for _, reporter := range []string{"source", "destination"} {
		of := `{reporter="` + reporter + `",destination_principal="spiffe://cluster.local/ns/default/sa/server"}`
		p.until(`sum(rate(istio_tcp_connections_opened_total`+of+`[1m])) > 0`, between(0.001, 10_000))
		p.until(`sum(istio_tcp_connections_opened_total`+of+`) - sum(istio_tcp_connections_closed_total`+of+`)`, between(1, 1))
		p.until(`sum(rate(istio_tcp_sent_bytes_total`+of+`[1m])) / sum(rate(istio_tcp_received_bytes_total`+of+`[1m]))`, between(2, 2))
	}
	p.until(`sum(pilotlight_agent_istio_uncounted)`, between(0, 0))
}
