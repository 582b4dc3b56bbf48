package traffic

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A Gateway's certificates are files beside its agent, which serves them by SDS: one that is missing costs its own host, not
// the listener; it is served once it is there, follows a change, and stays when the file breaks.
func TestCertificateFilesOfAGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // it fails where Envoy refuses anything
	ca, err := lab.NewAuthority("servers")
	w.Check(err)
	dir, bind := t.TempDir(), w.Address()
	issue := func(name string, serial int64) {
		t.Helper()
		id, err := ca.Issue(name+".test", serial)
		w.Check(err)
		w.Check(id.Write(dir, name))
	}
	issue("here", 1)
	w.Service("app.test", w.Backend("app"))
	w.Apply("Gateway gw", strings.NewReplacer("BIND", bind, "DIR", dir).Replace(`
		selector: {app: gw}
		servers:
		- {port: {number: 18443, name: here, protocol: HTTPS}, bind: BIND, hosts: [here.test], tls: {mode: SIMPLE, serverCertificate: DIR/here.pem, privateKey: DIR/here.key}}
		- {port: {number: 18443, name: late, protocol: HTTPS}, bind: BIND, hosts: [late.test], tls: {mode: MUTUAL, serverCertificate: DIR/late/late.pem, privateKey: DIR/late/late.key, caCertificates: DIR/late/ca.pem}}
	`), "VirtualService app", "hosts: [here.test, late.test]\ngateways: [gw]\nhttp: [{route: [{destination: {host: app.test}}]}]",
		"DestinationRule app", fmt.Sprintf("host: app.test\nsubsets: [{name: none, labels: {a: b}, trafficPolicy: {tls: {mode: SIMPLE, caCertificates: %s/none.pem}}}]", dir))
	agent, err := w.Sidecar(lab.Workload{Role: "router", Name: "gw", App: "gw", IP: bind, Discovery: w.Discovery.GRPC})
	w.Check(err)
	t.Cleanup(func() { agent.Stop(lab.StopLimit) })
	client, err := ca.Issue("client", 9)
	w.Check(err)
	config := &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{keyPair(w, client)}}
	presents := func(host string, want int64) {
		t.Helper()
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			named := config.Clone()
			named.ServerName = host
			return lab.Presents(bind+":18443", named, want)
		}))
	}
	logs := func(want string) {
		t.Helper()
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if !strings.Contains(agent.Log(), want) {
				return fmt.Errorf("the agent does not say %q", want)
			}
			return nil
		}))
	}
	presents("here.test", 1)
	w.Await(lab.ClientTo(bind+":18443", config), "https://here.test/", lab.From("app"))
	logs("missing: " + dir + "/late/late.pem")
	if conn, err := tls.Dial("tcp", net.JoinHostPort(bind, "18443"), &tls.Config{RootCAs: ca.Pool(), ServerName: "late.test"}); err == nil {
		conn.Close()
		t.Error("a host without a certificate is served")
	}

	w.Check(os.Mkdir(filepath.Join(dir, "late"), 0o755))
	id, err := ca.Issue("late.test", 2)
	w.Check(err)
	w.Check(id.Write(filepath.Join(dir, "late"), "late"))
	presents("late.test", 2)
	if _, err := lab.Exchange(lab.ClientTo(bind+":18443", &tls.Config{RootCAs: ca.Pool()}), http.MethodGet, "https://late.test/"); err == nil {
		t.Error("mutual TLS takes a client without a certificate")
	}
	w.Await(lab.ClientTo(bind+":18443", config), "https://late.test/", lab.From("app"))
	issue("here", 3)
	presents("here.test", 3)

	w.Check(os.WriteFile(filepath.Join(dir, "here.key"), id.Key, 0o600))
	logs("is not the key of the leaf")
	presents("here.test", 3)
}
