//go:build pod

package pod

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// certify gives a workload the certificate of its account, in files.
func (w *workload) certify(authority *lab.Authority, serial int64) tls.Certificate {
	t := w.mesh.t
	t.Helper()
	identity, err := authority.Issue("spiffe://cluster.local/ns/default/sa/"+w.name, serial)
	check(t, err)
	dir := filepath.Join(w.mesh.dir, w.name+"-certs")
	check(t, os.Mkdir(dir, 0o700))
	check(t, identity.Mount(dir))
	check(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, proxyUID, proxyUID)
	}))
	pair, err := identity.Pair()
	check(t, err)
	return pair
}

// over asks a port with a request over TLS, or over plain text for nil, and returns what comes back. The request is for a host, or for b.
func (w *workload) over(config *tls.Config, address string, host ...string) string {
	c, err := w.Dial(app, "tcp", address, stopLimit)
	if err != nil {
		return ""
	}
	defer c.Close()
	if config != nil {
		c = tls.Client(c, config)
	}
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", append(host, "b")[0])
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// Under STRICT nothing but mutual TLS of the mesh reaches a pod: neither its ports of HTTP and of bytes, nor one that nobody declares,
// from a pod without a sidecar or from one that dials past the services. A policy of the port opens it again.
func TestStrictPods(t *testing.T) {
	for name, six := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			const closed = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default, namespace: istio-system}\nspec: {mtls: {mode: STRICT}}\n"
			m := newMesh(t, six, "REDIRECT", closed)
			a, b, c := m.pods["a"], m.pods["b"], m.pods["c"]
			authority, err := lab.NewAuthority("mesh")
			check(t, err)
			own := a.certify(authority, 1)
			b.certify(authority, 2)
			a.inject()
			b.inject()
			b.serve("7778")

			if told := m.answers(a, "b", "b"); !strings.Contains(told.Header, "URI=spiffe://cluster.local/ns/default/sa/a") {
				t.Errorf("the client of b is named %s", told.Header)
			}
			m.tells(a, net.JoinHostPort(m.vip("b"), "9000"), "b")
			mesh := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{own}}
			for _, port := range []string{"8080", "7778"} {
				at := net.JoinHostPort(b.ip, port)
				if answer := c.over(mesh, at); !strings.Contains(answer, `"Program":"b"`) {
					t.Errorf("mutual TLS to port %s is answered by %q", port, answer)
				}
			}
			taken := b.stat(`^cluster\.(inbound\|.*|InboundPassthroughCluster)\.upstream_cx_total$`)
			for _, from := range []*workload{c, a} {
				for _, port := range []string{"8080", "9000", "7778"} {
					for what, config := range map[string]*tls.Config{
						"plain text": nil, "TLS without a certificate": {InsecureSkipVerify: true},
						"TLS with Istio's protocol": {InsecureSkipVerify: true, NextProtos: []string{"istio"}},
					} {
						if answer := from.over(config, net.JoinHostPort(b.ip, port)); answer != "" {
							t.Errorf("%s sends %s to port %s, and is answered by %q", from.name, what, port, answer)
						}
					}
				}
			}
			if now := b.stat(`^cluster\.(inbound\|.*|InboundPassthroughCluster)\.upstream_cx_total$`); now != taken {
				t.Errorf("%d of these connections reached b's programs", now-taken)
			}

			check(t, os.WriteFile(filepath.Join(m.dir, "config", "port.yaml"), []byte("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"+
				"metadata: {name: b}\nspec: {selector: {matchLabels: {app: b}}, portLevelMtls: {7778: {mode: PERMISSIVE}}}\n"), 0o644))
			m.answers(c, net.JoinHostPort(b.ip, "7778"), "b")
			if answer := c.over(nil, net.JoinHostPort(b.ip, "8080")); answer != "" {
				t.Errorf("with another port open, 8080 answers %q", answer)
			}

			// Clients that dial the Pod's own address reach it too, as those of a headless Service do.
			check(t, os.WriteFile(filepath.Join(m.dir, "config", "dialled.yaml"), []byte(fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: dialled}
spec: {hosts: [dialled.test], addresses: ["%[1]s"], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 8080, name: http, protocol: HTTP}, {number: 9000, name: tcp, protocol: TCP}],
  endpoints: [{address: "%[1]s", serviceAccount: b, labels: {app: b}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: dialled}
spec: {host: dialled.test, trafficPolicy: {loadBalancer: {simple: PASSTHROUGH}}}
`, b.ip)), 0o644))
			if told := m.answers(a, net.JoinHostPort(b.ip, "8080"), "b"); !strings.Contains(told.Header, "URI=spiffe://cluster.local/ns/default/sa/a") {
				t.Errorf("the client of b's own address is named %s", told.Header)
			}
			m.tells(a, net.JoinHostPort(b.ip, "9000"), "b")
			if n := a.stat(`^cluster\.outbound\|(8080|9000)\|\|dialled\.test\.ssl\.handshake$`); n < 2 {
				t.Errorf("Envoy counts %d handshakes of mutual TLS, want one for each port", n)
			}
			check(t, os.WriteFile(filepath.Join(m.dir, "config", "dialled.yaml"), []byte(fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: b}, ports: [{name: http, port: 8080}, {name: tcp, port: 9000}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db-0, labels: {app: b, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: b, hostname: db-0, subdomain: db, containers: [{name: db, image: db}]}
status: {phase: Running, podIP: "%[1]s", podIPs: [{ip: "%[1]s"}], conditions: [{type: Ready, status: "True"}]}
`, b.ip)), 0o644))
			for _, host := range []string{"db", "db-0.db"} {
				check(t, lab.Eventually(stopLimit, func() error {
					if answer := a.over(nil, net.JoinHostPort(b.ip, "8080"), host); !strings.Contains(answer, "URI=spiffe://cluster.local/ns/default/sa/a") {
						return fmt.Errorf("the client of %s, a headless Service, is answered by %q", host, answer)
					}
					return nil
				}))
			}
			m.tells(a, net.JoinHostPort(b.ip, "9000"), "b")
			if n := a.stat(`^cluster\.outbound\|(8080|9000)\|\|db\.default\.svc\.cluster\.local\.ssl\.handshake$`); n < 2 {
				t.Errorf("Envoy counts %d handshakes with a headless Service, want one for each port", n)
			}
		})
	}
}

// What docs/security.md says is not defended: at a port of TCP a policy decides at the client's first byte, so a client that is denied
// reads what a server says before that. A server that waits for its client tells it nothing.
func TestADeniedClientReadsAGreeting(t *testing.T) {
	m := newMesh(t, false, "REDIRECT", `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: b}
spec: {selector: {matchLabels: {app: b}}, action: DENY, rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/a]}}]}]}
`)
	a, b := m.pods["a"], m.pods["b"]
	authority, err := lab.NewAuthority("mesh")
	check(t, err)
	own := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{a.certify(authority, 1)}}
	b.certify(authority, 2)
	a.inject()
	b.inject()
	check(t, lab.Eventually(stopLimit, func() error {
		if _, err := a.call("b"); err == nil || !strings.Contains(err.Error(), "403") {
			return fmt.Errorf("HTTP of a denied client: %v, want 403", err)
		}
		return nil
	}))
	m.tells(a, net.JoinHostPort(m.vip("b"), "9000"), "b") // says its name, and closes
	silent, err := b.Listen(app, "tcp", "[::]:7779")
	check(t, err)
	t.Cleanup(func() { silent.Close() })
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			if n, _ := c.Read(make([]byte, 100)); n > 0 {
				fmt.Fprint(c, "secret")
			}
			c.Close()
		}
	}()
	if answer := m.pods["c"].over(own, net.JoinHostPort(b.ip, "7779")); answer != "" {
		t.Errorf("a server that waits for its client tells one that is denied %q", answer)
	}
}
