package hostile

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The gateway shows its namespace's key to a partner for DestinationRules of namespaces that may use it. For another tenant's rule it
// sends the partner nothing, not even a ClientHello, and the rule has a note.
func TestASharedGatewayLendsNoKey(t *testing.T) {
	t.Parallel()
	ca, err := lab.NewAuthority("partner")
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string, serial int64) lab.Identity {
		id, err := ca.Issue(name, serial)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	server, client := issue("partner.test", 1), issue("bank-client", 2)
	pair, err := tls.X509KeyPair(server.Chain, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	partner := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].SerialNumber)
	}))
	listener, err := net.Listen("tcp", "127.0.0.78:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := &counted{Listener: listener}
	partner.Listener = heard
	partner.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	partner.StartTLS()
	t.Cleanup(partner.Close)

	dir := t.TempDir()
	folder := filepath.Join(dir, "istio-ingress", "partner")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": client.Chain, "tls.key": client.Key, "ca.crt": client.Roots, "destination-rule-namespaces": []byte("bank shop\n")} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, "--secretsDir", dir, "--plaintextSecrets")
	port := partner.Listener.Addr().(*net.TCPAddr).Port
	for _, namespace := range []string{"evil", "bank", "istio-ingress", "istio-system"} {
		s.write(namespace+"-out", namespace, fmt.Sprintf(`
ServiceEntry partner
  hosts: [%[1]s.back.test]
  resolution: STATIC
  location: MESH_EXTERNAL
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.78, ports: {http: %[2]d}}]
DestinationRule partner
  host: %[1]s.back.test
  trafficPolicy: {tls: {mode: MUTUAL, credentialName: partner, subjectAltNames: [partner.test]}}
VirtualService partner
  hosts: [%[1]s.test]
  gateways: [istio-ingress/gw]
  http: [{route: [{destination: {host: %[1]s.back.test}}]}]`, namespace, port))
	}
	for _, namespace := range []string{"bank", "istio-ingress", "istio-system"} {
		if a := s.Await(s.client(), "http://"+namespace+".test/", lab.Status(200)); a.Body != "2" {
			t.Errorf("%s: the partner sees certificate %s, want 2", namespace, a.Body)
		}
	}
	before := heard.bytes.Load()
	a, err := lab.Exchange(s.client(), http.MethodGet, "http://evil.test/")
	if err != nil || a.Status != http.StatusServiceUnavailable || heard.bytes.Load() != before {
		t.Errorf("evil: %d %s, %v, and the partner reads %d bytes, want 503 and none", a.Status, a.Body, err, heard.bytes.Load()-before)
	}
	s.Check(lab.Eventually(lab.StopLimit, func() error {
		notes, err := lab.Get("http://" + s.Discovery.HTTP + "/debug/notes")
		if err == nil && !strings.Contains(notes, `names the client certificate \"partner\", which proxies of namespace istio-ingress do not get`) {
			err = fmt.Errorf("the rule of evil has no note: %s", notes)
		}
		return err
	}))
}

// counted counts the bytes that its connections read.
type counted struct {
	net.Listener
	bytes atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countedConn{c, &l.bytes}, err
}

type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}
