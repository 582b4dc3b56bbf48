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
// opens no connection, with or without TLS, and the rule has a note.
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
	var opened atomic.Int32
	partner.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	partner.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	partner.StartTLS()
	t.Cleanup(partner.Close)

	dir := t.TempDir()
	folder := filepath.Join(dir, "istio-ingress", "partner")
	s := start(t, "--secretsDir", dir, "--plaintextSecrets")
	s.Check(os.MkdirAll(folder, 0o755))
	for name, data := range map[string][]byte{"tls.crt": client.Chain, "tls.key": client.Key, "ca.crt": client.Roots, "destination-rule-namespaces": []byte("bank shop\n")} {
		s.Check(os.WriteFile(filepath.Join(folder, name), data, 0o600))
	}
	port := partner.Listener.Addr().(*net.TCPAddr).Port
	for _, namespace := range []string{"evil", "bank", "istio-ingress", "istio-system"} {
		s.write(namespace+"-out", namespace, fmt.Sprintf(`
ServiceEntry partner
  hosts: [%[1]s.back.test]
  resolution: STATIC
  location: MESH_EXTERNAL
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1, ports: {http: %[2]d}}]
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
	before := opened.Load()
	a, err := lab.Exchange(s.client(), http.MethodGet, "http://evil.test/")
	if err != nil || a.Status != http.StatusServiceUnavailable || opened.Load() != before {
		t.Errorf("evil: %d %s, %v, and %d connections, want 503 without any", a.Status, a.Body, err, opened.Load()-before)
	}
	s.Check(lab.Eventually(lab.StopLimit, func() error {
		notes, err := lab.Get("http://" + s.Discovery.HTTP + "/debug/notes")
		if err == nil && !strings.Contains(notes, `names the client certificate \"partner\", which proxies of namespace istio-ingress do not get`) {
			err = fmt.Errorf("the rule of evil has no note: %s", notes)
		}
		return err
	}))
}
