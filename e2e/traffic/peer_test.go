package traffic

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// peers is a server with a sidecar that has a certificate, and what arrives at it.
type peers struct {
	*world
	ca      *certificates
	server  string         // its address
	proxy   *lab.Proxy     // the sidecar
	ports   map[string]int // by protocol
	arrived atomic.Int64   // bytes of clients, as reads that returned some
	taken   atomic.Int64   // connections to the programs
}

const (
	meshClient  = "spiffe://cluster.local/ns/default/sa/client"
	aliasClient = "spiffe://old.test/ns/default/sa/client" // of trustDomainAliases
)

// withAlias writes a MeshConfig with an alias of the trust domain, and returns discovery's flags.
func withAlias(t *testing.T) []string {
	t.Helper()
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte("trustDomainAliases: [old.test]"+truth.Logged), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"--meshConfig", settings}
}

func newPeers(t *testing.T, flags ...string) *peers {
	t.Helper()
	return newPeersOf(t, func(p *peers) map[string]func(net.Conn) {
		return map[string]func(net.Conn){"HTTP": p.http, "TCP": p.bytes, "": p.bytes}
	}, flags...)
}

// newPeersOf does the same with programs of a test's own.
func newPeersOf(t *testing.T, programs func(*peers) map[string]func(net.Conn), flags ...string) *peers {
	t.Helper()
	p := &peers{world: newWorld(t, flags...), ports: map[string]int{}}
	p.ca, p.server = p.certificates(), p.Address()
	var declared []string
	for protocol, answer := range programs(p) {
		port := lab.Port(t)
		p.ports[protocol] = port
		declared = append(declared, fmt.Sprintf("{number: %d, name: p%d, protocol: %q}", port, port, protocol))
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		p.Check(err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				p.taken.Add(1)
				go answer(c)
			}
		}()
	}
	p.Apply("ServiceEntry app", fmt.Sprintf("hosts: [app.test]\nlocation: MESH_INTERNAL\nresolution: STATIC\naddresses: [%s]\nports: [%s]\n"+
		"endpoints: [{address: %s, serviceAccount: server, labels: {app: server}}]", p.Address(), strings.Join(declared, ", "), p.server),
		"Sidecar server", "workloadSelector: {labels: {app: server}}\negress: [{hosts: [./nobody.test]}]") // binds no VIP
	p.proxy = p.RunEnvoy("sidecar~"+p.server+"~server.default~default.svc.cluster.local", "", p.metadata("server", "spiffe://cluster.local/ns/default/sa/server"))
	return p
}

// http answers each request with the header by which the sidecar names the client.
func (p *peers) http(c net.Conn) {
	defer c.Close()
	for from := bufio.NewReader(c); ; {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		p.arrived.Add(1)
		text := "client=" + r.Header.Get("x-forwarded-client-cert")
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
}

// bytes answers what it reads with the same.
func (p *peers) bytes(c net.Conn) {
	defer c.Close()
	for part := make([]byte, 1024); ; {
		n, err := c.Read(part)
		if n > 0 {
			p.arrived.Add(1)
		}
		if _, failed := c.Write(part[:n]); err != nil || failed != nil {
			return
		}
	}
}

// metadata is that of a proxy with a certificate in files.
func (p *peers) metadata(app, id string) map[string]any {
	p.T.Helper()
	identity, err := p.ca.Issue(id, p.serial())
	p.Check(err)
	p.Check(identity.Write(p.ca.dir, app))
	return map[string]any{
		"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "LABELS": map[string]string{"app": app},
		"TLS_CLIENT_CERT_CHAIN": p.ca.path(app + ".pem"), "TLS_CLIENT_KEY": p.ca.path(app + ".key"), "TLS_CLIENT_ROOT_CERT": p.ca.path("ca.pem"),
	}
}

func (p *peers) serial() int64 { p.ca.issued++; return p.ca.issued + 100 }

// certificate issues one of an authority, with a change before it is signed.
func (p *peers) certificate(by *lab.Authority, id string, change func(*x509.Certificate)) []tls.Certificate {
	p.T.Helper()
	identity, err := by.IssueWith(id, p.serial(), change)
	p.Check(err)
	pair, err := identity.Pair()
	p.Check(err)
	return []tls.Certificate{pair}
}

// dial sends a request, which is bytes for other ports, to the server's own address, and returns what comes back.
func (p *peers) dial(protocol string, config *tls.Config) (string, error) {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", p.server, p.ports[protocol]), lab.StopLimit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(lab.StopLimit))
	if config != nil {
		c = tls.Client(c, config)
	}
	const said = "GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(c, said); err != nil {
		return "", err
	}
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if n > 0 {
		err = nil
	}
	return string(answer[:n]), err
}

func meshTLS(own []tls.Certificate, alpn ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, Certificates: own, NextProtos: alpn, ServerName: "outbound_.80_._.app.test"}
}

// reaches waits until a connection arrives, or until it does not.
func (p *peers) reaches(protocol string, config *tls.Config, want bool) {
	p.T.Helper()
	p.Check(lab.Eventually(time.Minute, func() error {
		if got, err := p.dial(protocol, config); (err == nil) != want {
			return fmt.Errorf("port %q: %q, %v; arrives: want %v", protocol, got, err, want)
		}
		return nil
	}))
}

// foreign are the connections that are not of the mesh, by what is wrong with them. A nil configuration is plain text.
func (p *peers) foreign() map[string]*tls.Config {
	p.T.Helper()
	other, err := lab.NewAuthority("other")
	p.Check(err)
	as := func(*x509.Certificate) {}
	out := map[string]*tls.Config{"plain text": nil}
	for name, own := range map[string][]tls.Certificate{
		"no certificate":             nil,
		"foreign root":               p.certificate(other, meshClient, as),
		"an alias as a part":         p.certificate(p.ca.Authority, "spiffe://old.test.evil/ns/default/sa/client", as),
		"another trust domain":       p.certificate(p.ca.Authority, "spiffe://cluster.local.evil/ns/default/sa/client", as),
		"the domain as a part":       p.certificate(p.ca.Authority, "spiffe://evil/cluster.local/ns/default/sa/client", as),
		"a name of DNS":              p.certificate(p.ca.Authority, "cluster.local", as),
		"expired":                    p.certificate(p.ca.Authority, meshClient, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"not yet valid":              p.certificate(p.ca.Authority, meshClient, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }),
		"the identity as a DNS name": p.certificate(p.ca.Authority, "x.test", func(c *x509.Certificate) { c.DNSNames = []string{meshClient} }),
		"the identity and no SAN":    p.certificate(p.ca.Authority, "x.test", func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, meshClient }),
		"an upper-case trust domain": p.certificate(p.ca.Authority, "x.test", func(c *x509.Certificate) {
			c.DNSNames, c.URIs = nil, []*url.URL{{Scheme: "spiffe", Host: "CLUSTER.local", Path: "/ns/default/sa/client"}}
		}),
	} {
		for i, alpn := range [][]string{nil, {"istio"}, {"istio-http/1.1", "istio", "http/1.1"}, {"http/1.1"}} {
			out[fmt.Sprintf("%s, ALPN %d", name, i)] = meshTLS(own, alpn...)
		}
	}
	return out
}

// Under STRICT nothing arrives but mutual TLS with a certificate of the mesh, at a port of whatever protocol; under PERMISSIVE plain text
// and the mesh arrive, all of them; under DISABLE plain text does. TestLongStrictLetsNothingForeignIn makes thousands of connections.
func TestPeerAuthentication(t *testing.T) {
	t.Parallel()
	p := newPeers(t, withAlias(t)...)
	own := p.certificate(p.ca.Authority, meshClient, func(*x509.Certificate) {})
	alias := p.certificate(p.ca.Authority, aliasClient, func(*x509.Certificate) {})
	as := func(own []tls.Certificate, protocol string) *tls.Config {
		if protocol == "HTTP" {
			return meshTLS(own, "istio-http/1.1", "istio", "http/1.1")
		}
		return meshTLS(own, "istio")
	}
	mesh := func(protocol string) *tls.Config { return as(own, protocol) }
	for protocol := range p.ports {
		p.reaches(protocol, nil, true)
		p.reaches(protocol, mesh(protocol), true)
		for range 20 {
			for _, config := range []*tls.Config{nil, mesh(protocol)} {
				if got, err := p.dial(protocol, config); err != nil {
					t.Fatalf("PERMISSIVE, port %q: %q, %v", protocol, got, err)
				}
			}
		}
	}

	p.Apply("PeerAuthentication default", "mtls: {mode: STRICT}")
	for protocol := range p.ports {
		p.reaches(protocol, nil, false)
		p.reaches(protocol, mesh(protocol), true)
		p.reaches(protocol, meshTLS(own), true) // without a name of Istio's
		p.reaches(protocol, as(alias, protocol), true)
	}
	before, connected, tried := p.arrived.Load(), p.taken.Load(), 0
	for name, config := range p.foreign() {
		for protocol := range p.ports {
			for range 2 {
				tried++
				if got, err := p.dial(protocol, config); err == nil {
					t.Fatalf("STRICT, port %q: %s is answered by %q", protocol, name, got)
				}
			}
		}
	}
	if n := p.arrived.Load() - before; n > 0 {
		t.Errorf("STRICT: of %d foreign connections, %d arrived", tried, n)
	}
	if n := p.taken.Load() - connected; n > 0 {
		t.Errorf("STRICT: for %d foreign connections, %d were made to the programs", tried, n)
	}
	t.Logf("STRICT: of %d foreign connections none arrived", tried)
	got, err := p.dial("HTTP", mesh("HTTP"))
	if err != nil || !strings.Contains(got, "By=spiffe://cluster.local/ns/default/sa/server;Hash=") || !strings.Contains(got, "URI="+meshClient) {
		t.Errorf("the workload is told of the client: %q, %v", got, err)
	}

	p.Apply("PeerAuthentication server", fmt.Sprintf("selector: {matchLabels: {app: server}}\nportLevelMtls: {%d: {mode: DISABLE}}", p.ports["TCP"]))
	p.reaches("TCP", nil, true)
	p.reaches("HTTP", nil, false)
	p.Apply("PeerAuthentication server", fmt.Sprintf("selector: {matchLabels: {app: server}}\nmtls: {mode: UNSET}\n"+
		"portLevelMtls: {%d: {mode: DISABLE}, %d: {mode: UNSET}}", p.ports["HTTP"], p.ports["TCP"]))
	p.reaches("HTTP", nil, true) // UNSET is what the namespace has
	p.reaches("TCP", nil, false)
	p.reaches("", nil, false)
	p.reaches("", mesh(""), true)
	p.Apply("PeerAuthentication server", fmt.Sprintf("selector: {matchLabels: {app: server}}\nmtls: {mode: DISABLE}\nportLevelMtls: {%d: {mode: STRICT}}", p.ports["TCP"]))
	p.reaches("TCP", nil, false)
	p.reaches("HTTP", nil, true)
	p.reaches("", nil, true)

	p.Check(os.WriteFile(p.Config+"/peerauthentication-server.yaml", []byte("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: server}\n"+
		"spec: {selector: {matchLabels: {app: server}}, mtls: {mode: PERMISIVE}}"), 0o644))
	p.Apply("PeerAuthentication default", "mtls: {mode: DISABLE}")
	p.reaches("HTTP", nil, true) // the last good form of the broken one
	p.reaches("TCP", nil, false)

	p.Discovery.Stop(lab.StopLimit)
	p.Check(p.Discovery.Restart()) // which knows no earlier form of the broken one
	for protocol := range p.ports {
		p.reaches(protocol, nil, false)
		p.reaches(protocol, mesh(protocol), true)
	}
	p.Remove("PeerAuthentication", "server")
	p.reaches("TCP", nil, true)
	p.ownMode(mesh("HTTP"), as(alias, "HTTP"))
}

// ownMode checks a port of a Sidecar with tls of mode ISTIO_MUTUAL, which a PeerAuthentication of mode DISABLE does not open.
func (p *peers) ownMode(served ...*tls.Config) {
	p.T.Helper()
	const port = "of ISTIO_MUTUAL"
	p.ports[port] = lab.Port(p.T)
	p.Apply("Sidecar server", fmt.Sprintf("workloadSelector: {labels: {app: server}}\negress: [{hosts: [./nobody.test]}]\n"+
		"ingress: [{port: {number: %d, name: http, protocol: HTTP}, bind: %s, defaultEndpoint: \"127.0.0.1:%d\", tls: {mode: ISTIO_MUTUAL}}]",
		p.ports[port], p.server, p.ports["HTTP"]))
	for _, config := range served {
		p.reaches(port, config, true)
	}
	before := p.taken.Load()
	for name, config := range p.foreign() {
		if got, err := p.dial(port, config); err == nil {
			p.T.Errorf("port %s: %s is answered by %q", port, name, got)
		}
	}
	if n := p.taken.Load() - before; n > 0 {
		p.T.Errorf("port %s: %d foreign connections were made to the program", port, n)
	}
}

// A client with a certificate speaks mutual TLS by itself, and checks the server's account; one without a certificate is closed out by
// STRICT. What it says of itself in a header does not count.
func TestAutomaticMutualTLS(t *testing.T) {
	t.Parallel()
	p := newPeers(t, withAlias(t)...)
	p.Apply("PeerAuthentication default", "mtls: {mode: STRICT}")
	client := p.SidecarEnvoyWith("client", "", p.metadata("client", meshClient))
	bare := p.SidecarEnvoy("bare", "")
	p.shared = true
	target := fmt.Sprintf("http://app.test:%d/", p.ports["HTTP"])
	a := client.Until(lab.Status(200), target, "x-forwarded-client-cert", "URI=spiffe://cluster.local/ns/default/sa/admin")
	if !strings.Contains(a.Body, "URI="+meshClient) || strings.Contains(a.Body, "admin") {
		t.Errorf("the workload is told of the client: %s", a.Body)
	}
	bare.Until(lab.Status(503), target)
	p.replay(client)
	p.replay(bare)
	p.aliasServers(client)

	p.Apply("ServiceEntry app", fmt.Sprintf("hosts: [app.test]\nlocation: MESH_INTERNAL\nresolution: STATIC\nports: [{number: %d, name: http, protocol: HTTP}]\n"+
		"endpoints: [{address: %s, serviceAccount: other, labels: {app: server}}]", p.ports["HTTP"], p.server))
	client.Until(lab.Status(503), target)
	if n := client.Stat(`^cluster\.outbound\|.*app\.test\.ssl\.fail_verify_san$`); n == 0 {
		t.Error("Envoy counts no certificate of another account")
	}
	// It is not replayed: explain takes an endpoint's account for that of its certificate, which is another one here.
	p.Apply("PeerAuthentication default", "mtls: {mode: DISABLE}")
	client.Until(lab.Status(200), target)
	bare.Until(lab.Status(200), target)
	p.replay(client)
	p.replay(bare)
}

// aliasServers checks that a client takes a server whose certificate has the service's account in an alias of the trust domain, and in no other domain.
func (p *peers) aliasServers(client *lab.Proxy) {
	p.T.Helper()
	for host, id := range map[string]string{"alias.test": "spiffe://old.test/ns/default/sa/server", "foreign.test": "spiffe://old.test.evil/ns/default/sa/server"} {
		b := p.encrypted(host, &tls.Config{
			Certificates: p.certificate(p.ca.Authority, id, func(*x509.Certificate) {}), ClientCAs: p.ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		})
		p.ServiceOf(host, "HTTP", fmt.Sprintf("{address: %s, ports: {http: %d}, serviceAccount: server}", b.IP, b.Port))
	}
	client.Until(lab.From("alias.test"), "http://alias.test/")
	client.Until(lab.Status(503), "http://foreign.test/")
	if n := client.Stat(`^cluster\.outbound\|80\|\|foreign\.test\.ssl\.fail_verify_san$`); n == 0 {
		p.T.Error("Envoy counts no certificate of another trust domain")
	}
	p.Remove("ServiceEntry", "alias.test") // what follows is compared with explain, which takes a server to have the account that its endpoint names
	p.Remove("ServiceEntry", "foreign.test")
}
