//go:build registries

package registries

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// fromConsul starts Consul with its authority, and discovery with a service web, under STRICT, that a policy opens to the principal client. further are objects beside
// these, and ca the configuration of Consul's authority from before its first leaf, nil for its own. at is the address of web's server.
func fromConsul(t *testing.T, further string, ca map[string]any) (w *world, l leaf, at string) {
	t.Helper()
	w = newWorld(t)
	server := w.consul("server", map[string]any{"server": true, "bootstrap_expect": 1, "connect": map[string]any{"enabled": true}})
	l = leaf{w, filepath.Join(w.Dir, "consul-leaf"), server}
	w.check(os.WriteFile(l.script, []byte(lab.Code(t, "docs/certificates.md", "script")[0]), 0o700))
	var roots struct{ TrustDomain string }
	w.check(lab.Eventually(stopLimit, func() error {
		text, err := lab.Get(server.url + "/v1/agent/connect/ca/roots")
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &roots)
	}))
	if ca != nil {
		l.configure(ca)
	}
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
`)+further), 0o644))
	w.serve("--meshConfig", mesh)
	l.start("web", 1)
	w.proxy = l.start("client", 2)
	w.answers("http://web.test/", "web")
	return w, l, net.JoinHostPort(ip, fmt.Sprint(port))
}

// configure changes the configuration of Consul's authority, as "consul connect ca set-config" does.
func (l leaf) configure(config map[string]any) {
	l.w.T.Helper()
	l.server.put("/v1/connect/ca/configuration", map[string]any{"Provider": "consul", "Config": config})
}

// Sidecars with certificates of Consul's authority speak mutual TLS under STRICT; a policy tells them apart by their principals; a server with
// another one's certificate gets no request.
func TestCertificatesFromConsul(t *testing.T) {
	w, l, at := fromConsul(t, "", nil)
	if body, err := lab.Get("http://" + at + "/"); err == nil {
		t.Errorf("plain text is answered by %q", body)
	}
	other := l.start("other", 3)
	w.check(lab.Eventually(stopLimit, func() error {
		if body, err := lab.GetThrough(other, "http://web.test/"); err == nil || !strings.Contains(err.Error(), "403") {
			return fmt.Errorf("another principal: %q, %v; want 403", body, err)
		}
		return nil
	}))
	l.renews("web", "client", at)
}

// anew has each request between sidecars make a connection of its own, so that both certificates are checked each time.
const anew = `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: default}
spec: {host: web.test, trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}}
`

// Leaves of Consul that end within a minute are replaced by the script before their end, again and again: none of the requests fails, of which each makes a connection. The same holds
// for a root that Consul replaces, whichever side has a leaf of the new one first.
func TestLeavesOfConsulThatEndSoon(t *testing.T) {
	const life, drift = time.Minute, time.Minute                                       // Consul's leaves begin a minute ago
	ca := map[string]any{"LeafCertTTL": (life + drift).String(), "SkipValidate": true} // else an hour is the least
	w, l, at := fromConsul(t, anew, ca)
	first := map[string]*x509.Certificate{"web": l.pair("web").Leaf, "client": l.pair("client").Leaf}
	load := w.load("http://web.test/")
	for service, leaf := range first {
		if left := time.Until(leaf.NotAfter); left > life {
			t.Fatalf("the leaf of %s has %s to its end, want at most %s", service, left, life)
		}
	}
	for time.Now().Before(first["client"].NotAfter) || time.Now().Before(first["web"].NotAfter) {
		l.write("web")
		l.write("client")
		<-time.After(life / 6)
	}
	presents := func() {
		t.Helper()
		config := &tls.Config{InsecureSkipVerify: true, ServerName: "web.test", NextProtos: []string{"istio"}, Certificates: []tls.Certificate{l.pair("client")}}
		w.check(lab.Eventually(stopLimit, func() error { return lab.Presents(at, config, l.pair("web").Leaf.SerialNumber.Int64()) }))
	}
	presents()
	for service, leaf := range first {
		if now := l.pair(service).Leaf; now.SerialNumber.Cmp(leaf.SerialNumber) == 0 || !now.NotAfter.After(leaf.NotAfter) {
			t.Errorf("the leaf of %s, until %s, follows that until %s", service, now.NotAfter, leaf.NotAfter)
		}
	}
	w.thousand(load)

	ca["LeafCertTTL"] = "72h"
	for i, order := range [][]string{{"web", "client"}, {"client", "web"}} {
		before := l.pair("web").Leaf
		ca["PrivateKeyType"], ca["PrivateKeyBits"] = "ec", 384-128*i // another key is another root
		l.configure(ca)
		for _, service := range order {
			w.check(lab.Eventually(2*time.Minute, func() error { // Consul gives leaves of the new root when it has seen it
				l.write(service)
				if now := l.pair(service).Leaf; string(now.AuthorityKeyId) == string(before.AuthorityKeyId) {
					return fmt.Errorf("the leaf of %s is of the root before", service)
				}
				return nil
			}))
			presents()
			w.thousand(load)
		}
	}
	lab.Unharmed(t, load)
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
