//go:build registries

package registries

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// leaf is a script that writes certificates of Consul's authority, as docs/certificates.md has it.
type leaf struct {
	w      *world
	script string
	server *consul
}

func (l leaf) write(service string) (dir string) {
	l.w.T.Helper()
	dir = filepath.Join(l.w.Dir, service+"-certs")
	command := exec.CommandContext(l.w.T.Context(), "sh", l.script, service, dir)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "CONSUL_HTTP_ADDR=" + l.server.url}
	if out, err := command.CombinedOutput(); err != nil {
		l.w.T.Fatalf("consul-leaf %s: %v: %s", service, err, out)
	}
	return dir
}

// start starts a sidecar with the certificate of a service, and returns its outbound HTTP.
func (l leaf) start(service string, last int) string {
	l.w.T.Helper()
	port := l.w.port()
	s, err := l.w.Sidecar(lab.Workload{
		Name: service, App: service, Version: "v1", IP: fmt.Sprint(l.w.Addresses, last), ProxyPort: port, Discovery: l.w.discovery.GRPC,
		Flags: []string{"--certDir", l.write(service), "--statusPort", "0"},
	})
	l.w.check(err)
	l.w.StopAtEnd(service, s)
	l.w.check(s.AwaitReady())
	return local(port)
}

// Sidecars with certificates of Consul's authority speak mutual TLS under STRICT; a policy tells them apart by their principals; a server with
// another one's certificate gets no request.
func TestCertificatesFromConsul(t *testing.T) {
	w := newWorld(t)
	server := w.consul("server", map[string]any{"server": true, "bootstrap_expect": 1, "connect": map[string]any{"enabled": true}})
	l := leaf{w, filepath.Join(w.Dir, "consul-leaf"), server}
	w.check(os.WriteFile(l.script, []byte(lab.Code(t, "docs/certificates.md", "script")[0]), 0o700))
	var roots struct{ TrustDomain string }
	w.check(lab.Eventually(stopLimit, func() error {
		text, err := lab.Get(server.url + "/v1/agent/connect/ca/roots")
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &roots)
	}))
	mesh := filepath.Join(w.Dir, "mesh.yaml")
	w.check(os.WriteFile(mesh, []byte("trustDomain: "+roots.TrustDomain+"\n"), 0o644))
	w.configDir = filepath.Join(w.Dir, "config")
	w.check(os.Mkdir(w.configDir, 0o755))
	b := w.backendAt("web", "127.0.0.1", w.port())
	ip, port, identity := fmt.Sprint(w.Addresses, 1), w.port(), roots.TrustDomain+"/ns/default/dc/dc1/svc/"
	w.check(os.WriteFile(filepath.Join(w.configDir, "web.yaml"), []byte(strings.NewReplacer("IP", ip, "PORT", fmt.Sprint(port), "BACKEND", fmt.Sprint(b.port), "ID/", identity).Replace(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec:
  hosts: [web.test]
  location: MESH_INTERNAL
  resolution: STATIC
  subjectAltNames: ["spiffe://ID/web"]
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: IP, ports: {http: PORT}, serviceAccount: web, labels: {app: web}}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: web, namespace: default}
spec:
  workloadSelector: {labels: {app: web}}
  ingress: [{port: {number: PORT, name: http, protocol: HTTP}, bind: IP, defaultEndpoint: "127.0.0.1:BACKEND"}]
  egress: [{hosts: ["*/*"]}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: web, namespace: default}
spec: {selector: {matchLabels: {app: web}}, rules: [{from: [{source: {principals: ["ID/client"]}}]}]}
`)), 0o644))
	w.serve("--meshConfig", mesh)
	l.start("web", 1)
	w.proxy = l.start("client", 2)
	w.answers("http://web.test/", "web")
	if body, err := lab.Get(fmt.Sprintf("http://%s:%d/", ip, port)); err == nil {
		t.Errorf("plain text is answered by %q", body)
	}
	other := l.start("other", 3)
	w.check(lab.Eventually(stopLimit, func() error {
		if body, err := lab.GetThrough(other, "http://web.test/"); err == nil || !strings.Contains(err.Error(), "403") {
			return fmt.Errorf("another principal: %q, %v; want 403", body, err)
		}
		return nil
	}))
	l.renews("web", "client", net.JoinHostPort(ip, fmt.Sprint(port)))
}

// renews has Consul forget the leaves that it keeps, by a restart, and runs the script again for a server and its client: the server presents a
// new certificate, and no request fails.
func (l leaf) renews(server, client, address string) {
	l.w.T.Helper()
	load := l.w.load("http://web.test/")
	old := l.pair(server)
	l.server.kill()
	l.server.restart()
	l.write(server)
	l.write(client)
	now := l.pair(server)
	if now.Leaf.SerialNumber.Cmp(old.Leaf.SerialNumber) == 0 {
		l.w.T.Fatalf("the second run of the script has written the serial %d again", now.Leaf.SerialNumber)
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "web.test", NextProtos: []string{"istio"}, Certificates: []tls.Certificate{l.pair(client)}}
	l.w.check(lab.Eventually(stopLimit, func() error { return lab.Presents(address, config, now.Leaf.SerialNumber.Int64()) }))
	l.w.thousand(load)
	lab.Unharmed(l.w.T, load)
}

// pair is the certificate that the script has written for a service.
func (l leaf) pair(service string) tls.Certificate {
	l.w.T.Helper()
	in := func(name string) string { return filepath.Join(l.w.Dir, service+"-certs", name) }
	pair, err := tls.LoadX509KeyPair(in("cert-chain.pem"), in("key.pem"))
	l.w.check(err)
	return pair
}
