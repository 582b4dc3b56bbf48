//go:build pod

package pod

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// probed starts programs that listen on the pod's address alone, and on loopback alone, and has the agent probe them.
func (w *workload) probed() {
	t := w.mesh.t
	t.Helper()
	loopback := "127.0.0.1"
	if w.mesh.six {
		loopback = "::1"
	}
	for port, host := range map[string]string{"7070": w.ip, "7071": loopback} {
		w.serveAt(net.JoinHostPort(host, port))
	}
	w.environment = append(w.environment, `ISTIO_KUBE_APP_PROBERS={
		"/app-health/pod/livez": {"httpGet": {"path": "/", "port": 7070}, "timeoutSeconds": 5},
		"/app-health/pod/readyz": {"tcpSocket": {"port": 7070}, "timeoutSeconds": 5},
		"/app-health/named/livez": {"httpGet": {"path": "/", "port": 7070, "host": "`+w.ip+`"}, "timeoutSeconds": 5},
		"/app-health/loopback/livez": {"httpGet": {"path": "/", "port": 7071}, "timeoutSeconds": 5},
		"/app-health/nobody/livez": {"tcpSocket": {"port": 7072}, "timeoutSeconds": 5}}`)
}

// healthy checks that probes reach these programs past Envoy, which would accept a connection to a port of nobody too.
func (w *workload) healthy() {
	t := w.mesh.t
	t.Helper()
	client := w.Client(app, func(address string) string { return address })
	for path, want := range map[string]int{"pod/livez": 200, "pod/readyz": 200, "named/livez": 200, "loopback/livez": 200, "nobody/livez": 500} {
		response, err := client.Get("http://127.0.0.1:15020/app-health/" + path)
		check(t, err)
		var body [300]byte
		n, _ := response.Body.Read(body[:])
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", path, response.StatusCode, body[:n], want)
		}
		if path == "pod/livez" {
			if source, _, _ := strings.Cut(string(body[:n]), `","Dialled"`); !strings.HasSuffix(source, "127.0.0.6") && !strings.HasSuffix(source, "::6") {
				t.Errorf("%s: %s, want a connection past Envoy", path, body[:n])
			}
		}
	}
	w.mesh.counts(w, `^cluster\.InboundPassthroughCluster.*\.upstream_cx_total$`, 0, 0)
}

// The mesh's ways, by what each family and each mode of interception has of them.
func TestTwoPods(t *testing.T) {
	for _, test := range []struct {
		name string
		six  bool
		mode string
	}{
		{"IPv4, REDIRECT", false, "REDIRECT"},
		{"IPv6, REDIRECT", true, "REDIRECT"},
		{"IPv4, TPROXY", false, "TPROXY"},
		{"IPv6, TPROXY", true, "TPROXY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMesh(t, test.six, test.mode, "")
			a, b, c := m.pods["a"], m.pods["b"], m.pods["c"]
			a.inject()
			b.probed()
			b.inject()
			b.healthy()

			// A program calls a name; both Envoys carry the call.
			const calls = 20
			for range calls {
				m.answers(a, "b", "b")
			}
			m.counts(a, `^http\.outbound_.*_80\.downstream_cx_total$`, calls, calls)
			m.counts(a, `^cluster\.outbound\|80\|\|b\.default\.svc\.cluster\.local\.upstream_rq_200$`, calls, calls)
			m.counts(b, `^cluster\.inbound\|8080\|\|\.upstream_rq_200$`, calls, calls)
			m.counts(a, `^cluster\.inbound\|8080\|\|\.upstream_rq_200$`, 0, 0)

			// Bytes: the listener is that of the address that was dialled.
			m.tells(a, net.JoinHostPort(m.vip("b"), "9000"), "b")
			m.counts(a, `^cluster\.outbound\|9000\|\|b\..*\.upstream_cx_total$`, 1, 1)
			m.counts(b, `^cluster\.inbound\|9000\|\|\.upstream_cx_total$`, 1, 1)

			// A self-call goes out, and in.
			m.answers(a, "a", "a")
			m.counts(a, `^cluster\.outbound\|80\|\|a\.default\.svc\.cluster\.local\.upstream_rq_200$`, 1, 1)
			m.counts(a, `^cluster\.inbound\|8080\|\|\.upstream_rq_200$`, 1, 1)

			// Without a virtual IP: the pod itself is dialled, and both Envoys pass it on.
			m.answers(a, net.JoinHostPort(b.ip, "8080"), "b")
			m.counts(a, `^cluster\.PassthroughCluster\.upstream_cx_total$`, 1, 1)
			m.counts(b, `^cluster\.inbound\|8080\|\|\.upstream_rq_200$`, calls+1, calls+1)

			// One that has no sidecar, from and to. The dialled address is found.
			m.answers(a, net.JoinHostPort(c.ip, "8080"), "c")
			m.counts(a, `^cluster\.PassthroughCluster\.upstream_cx_total$`, 2, 2)
			m.tells(c, net.JoinHostPort(b.ip, "9000"), "b")
			answer := m.answers(c, net.JoinHostPort(b.ip, "8080"), "b")
			m.counts(b, `^cluster\.inbound\|8080\|\|\.upstream_rq_200$`, calls+2, calls+2)
			if keeps := answer.Source == c.ip; keeps != (test.mode == "TPROXY") {
				t.Errorf("b's program sees the client as %s, the client is %s", answer.Source, c.ip)
			}
			if host, _, _ := net.SplitHostPort(answer.Dialled); host != b.ip {
				t.Errorf("b's program was dialled at %s, want %s", host, b.ip)
			}

			// Ports that nobody declares lead to the program as well, or to nobody.
			l, err := b.Listen(app, "tcp", net.JoinHostPort(b.ip, "7777"))
			check(t, err)
			accepted := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err == nil {
					_, err = c.Write([]byte("b"))
					c.Close()
				}
				accepted <- err
			}()
			m.tells(c, net.JoinHostPort(b.ip, "7777"), "b")
			l.Close() // a connection that has not come will not
			if err := <-accepted; err != nil {
				t.Errorf("b's program on a port that nobody declares: %v", err)
			}
			m.counts(b, `^cluster\.InboundPassthroughCluster\.upstream_cx_total$`, 1, 1)
			b.serve("7778")
			m.answers(c, net.JoinHostPort(b.ip, "7778"), "b")
			m.counts(b, `^cluster\.InboundPassthroughCluster\.upstream_rq_200$`, 1, 1)

			// Envoy's own ports are refused, and nothing went in a circle.
			for _, port := range []string{"15001", "15006"} {
				if name, _, _ := dial(c.Netns, app, net.JoinHostPort(b.ip, port)); name != "refused" {
					t.Errorf("port %s answers with %q, want a refusal", port, name)
				}
				if name, _, _ := dial(a.Netns, app, net.JoinHostPort(b.ip, port)); name == "b" {
					t.Errorf("port %s, by way of a: answered by %q", port, name)
				}
			}
			m.counts(a, `^cluster\..*circuit_breakers.*cx_open$`, 0, 0)
			m.counts(b, `^cluster\..*circuit_breakers.*cx_open$`, 0, 0)
			m.counts(b, `^listener\..*_15006\.downstream_cx_total$`, 1, 60)
			m.counts(a, `update_rejected$`, 0, 0)
			m.counts(b, `update_rejected$`, 0, 0)
			if test.mode == "REDIRECT" {
				m.keepsAddresses(a, b, c)
			}
		})
	}
}

// keepsAddresses has a tenant write ServiceEntries of TCP with addresses of another namespace's HTTP Service, whose Pod is owner: clients
// still reach it there, and the tenant's own program at the addresses that nobody has.
func (m *mesh) keepsAddresses(client, tenant, owner *workload) {
	m.t.Helper()
	vip, free, bits := m.family().vip+"20", m.family().vip+"99", "/16"
	if m.six {
		bits = "/64"
	}
	write := func(name, text string) {
		m.t.Helper()
		path := filepath.Join(m.dir, "config", name+".yaml")
		check(m.t, os.WriteFile(path+"~", []byte(text), 0o644))
		check(m.t, os.Rename(path+"~", path))
	}
	write("bank", fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: pay, namespace: bank}
spec: {clusterIP: "%[1]s", clusterIPs: ["%[1]s"], selector: {app: pay}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pay, namespace: bank, labels: {app: pay}}
spec: {containers: [{name: web, image: web}]}
status: {phase: Running, podIP: "%[2]s", podIPs: [{ip: "%[2]s"}], conditions: [{type: Ready, status: "True"}]}
`, vip, owner.ip))
	m.answers(client, net.JoinHostPort(vip, "80"), owner.name)
	for _, row := range []struct{ name, addresses, port, dialled string }{
		{"vip", fmt.Sprintf("%q, %q", vip, free), "80", vip},
		{"range", fmt.Sprintf("%q", m.family().vip+"0"+bits), "80", vip},
		{"pod", fmt.Sprintf("%q, %q", owner.ip, free), "8080", owner.ip},
	} {
		write("evil", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: evil}
spec:
  hosts: [%[1]s.evil.test]
  addresses: [%[2]s]
  resolution: STATIC
  ports: [{number: %[3]s, name: tcp, protocol: TCP, targetPort: 8080}]
  endpoints: [{address: "%[4]s"}]
`, row.name, row.addresses, row.port, tenant.ip))
		check(m.t, lab.Eventually(stopLimit, func() error {
			if client.stat(fmt.Sprintf(`^cluster\.outbound\|%s\|\|%s\.evil\.test\.membership_total$`, row.port, row.name)) != 1 {
				return fmt.Errorf("%s has no cluster of the tenant's %s", client.name, row.name)
			}
			return nil
		}))
		m.answers(client, net.JoinHostPort(free, row.port), tenant.name)
		m.answers(client, net.JoinHostPort(row.dialled, row.port), owner.name)
	}
}

// answers calls a host from a workload, and wants the program of the name.
func (m *mesh) answers(from *workload, host, name string) told {
	m.t.Helper()
	var answer told
	err := lab.Eventually(stopLimit, func() (err error) {
		answer, err = from.call(host)
		return err
	})
	if err != nil || answer.Program != name {
		m.t.Fatalf("%s calls %s: answered by %q, %v; want %q", from.name, host, answer.Program, err, name)
	}
	return answer
}

// tells connects to an address from a workload, and wants the program of the name.
func (m *mesh) tells(from *workload, address, name string) {
	m.t.Helper()
	if answer, _, _ := dial(from.Netns, app, address); answer != name {
		m.t.Errorf("%s dials %s: answered by %q, want %q", from.name, address, answer, name)
	}
}

// counts wants the sum of a workload's stats to be within bounds.
func (m *mesh) counts(w *workload, filter string, low, high int64) {
	m.t.Helper()
	if n := w.stat(filter); n < low || n > high {
		m.t.Errorf("%s: %s is %d, want %d to %d", w.name, filter, n, low, high)
	}
}

// Traffic that pod-init leaves alone passes by both Envoys.
func TestPodsLeaveOut(t *testing.T) {
	m := newMesh(t, false, "REDIRECT", "")
	a, b, c := m.pods["a"], m.pods["b"], m.pods["c"]
	a.inject("-x", c.ip+"/32", "-o", "9000")
	b.inject("-b", "9000")
	m.answers(a, net.JoinHostPort(c.ip, "8080"), "c") // -x
	m.tells(a, net.JoinHostPort(b.ip, "9000"), "b")   // -o, but b's Envoy takes it: -b
	m.answers(c, net.JoinHostPort(b.ip, "8080"), "b") // not in b's list
	m.counts(a, `^cluster\.(PassthroughCluster|outbound.*)\.upstream_cx_total$`, 0, 0)
	m.counts(b, `^cluster\.inbound\|8080\|\|\.upstream_cx_total$`, 0, 0)
	m.counts(b, `^cluster\.inbound\|9000\|\|\.upstream_cx_total$`, 1, 1)
}

// Sidecars speak mutual TLS with each other, with certificates from files; a client without one is refused.
func TestPodsSpeakMutualTLS(t *testing.T) {
	dir, err := os.MkdirTemp("", "pilotlight-certs-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	authority, err := lab.NewAuthority("mesh")
	check(t, err)
	for i, name := range []string{"a", "b"} {
		identity, err := authority.Issue(name+".default.svc.cluster.local", int64(2001+i))
		check(t, err)
		check(t, identity.Mount(filepath.Join(dir, name)))
		check(t, filepath.WalkDir(filepath.Join(dir, name), func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, proxyUID, proxyUID)
		}))
	}
	m := newMesh(t, false, "REDIRECT", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: b}
spec:
  host: b.default.svc.cluster.local
  trafficPolicy:
    portLevelSettings:
    - port: {number: 80}
      tls:
        mode: MUTUAL
        clientCertificate: %[1]s/a/cert-chain.pem
        privateKey: %[1]s/a/key.pem
        caCertificates: %[1]s/a/root-cert.pem
        subjectAltNames: [b.default.svc.cluster.local]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: b}
spec:
  workloadSelector: {labels: {app: b}}
  ingress:
  - port: {number: 8080, name: http, protocol: HTTP}
    defaultEndpoint: 127.0.0.1:8080
    tls:
      mode: MUTUAL
      serverCertificate: %[1]s/b/cert-chain.pem
      privateKey: %[1]s/b/key.pem
      caCertificates: %[1]s/b/root-cert.pem
      subjectAltNames: [a.default.svc.cluster.local]
  egress: [{hosts: ["*/*"]}]
`, dir))
	a, b, c := m.pods["a"], m.pods["b"], m.pods["c"]
	a.inject()
	b.inject()
	for range 5 {
		m.answers(a, "b", "b")
	}
	m.counts(a, `^cluster\.outbound\|80\|\|b\..*\.ssl\.handshake$`, 1, 5)
	m.counts(b, `^listener\..*15006\.ssl\.handshake$`, 1, 5)
	m.counts(b, `^cluster\.inbound\|8080\|\|\.upstream_rq_200$`, 5, 5)
	if answer, err := c.call(net.JoinHostPort(b.ip, "8080")); err == nil {
		t.Errorf("a client without a certificate is answered: %+v", answer)
	}
	m.counts(b, `^cluster\.inbound\|8080\|\|\.upstream_rq_200$`, 5, 5)
	m.counts(b, `^listener\..*15006\.ssl\.(fail_verify_no_cert|connection_error)$`, 1, 5)
}
