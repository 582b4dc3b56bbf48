package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// certificates are identities of one authority, as files and as Go takes them.
type certificates struct {
	*lab.Authority
	dir    string
	issued int64
}

func (w *world) certificates() *certificates {
	w.t.Helper()
	authority, err := lab.NewAuthority("root")
	w.check(err)
	return &certificates{Authority: authority, dir: w.t.TempDir()}
}

func (c *certificates) path(name string) string { return filepath.Join(c.dir, name) }

// issue writes NAME.pem and NAME.key, beside ca.pem.
func (c *certificates) issue(w *world, name string) tls.Certificate {
	w.t.Helper()
	c.issued++
	identity, err := c.Issue(name, c.issued)
	w.check(err)
	w.check(identity.Write(c.dir, name))
	pair, err := identity.Pair()
	w.check(err)
	return pair
}

// tlsBackend is a backend that ends TLS itself.
func (w *world) tlsBackend(ca *certificates, name string) *backend {
	w.t.Helper()
	return w.encrypted(name, &tls.Config{Certificates: []tls.Certificate{ca.issue(w, name)}})
}

// mutualBackend is a backend that ends mutual TLS itself, as a sidecar beside it would.
func (w *world) mutualBackend(ca *certificates, name string) *backend {
	w.t.Helper()
	return w.encrypted(name, &tls.Config{
		Certificates: []tls.Certificate{ca.issue(w, name+".test")}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	})
}

func (w *world) encrypted(name string, config *tls.Config) *backend {
	w.t.Helper()
	b := &backend{name: name, ip: w.address()}
	l, err := tls.Listen("tcp", b.ip+":0", config)
	w.check(err)
	b.serve(w, l)
	return b
}

// clientTo dials address whatever the URL says.
func clientTo(address string, config *tls.Config) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: config,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
}

// A DestinationRule encrypts what leaves the proxy, and checks who answers.
func TestTLSOrigination(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca := w.certificates()
	b := w.tlsBackend(ca, "app.test")
	w.service("app.test", b)
	w.service("wrong.test", b)
	rule := func(host, rest string) {
		w.apply("DestinationRule "+host, fmt.Sprintf("host: %s\ntrafficPolicy: {tls: {mode: SIMPLE, caCertificates: %s%s}}", host, ca.path("ca.pem"), rest))
	}
	rule("app.test", "")
	rule("wrong.test", "")
	p := w.sidecar("client", "")
	p.until(from("app.test"), "http://app.test/")
	p.until(from("app.test"), "http://app.test./")
	p.until(status(503), "http://wrong.test/")
	if n := p.stat(`^cluster\.outbound\|80\|\|wrong\.test\.ssl\.fail_verify_san$`); n == 0 {
		t.Error("Envoy counts no certificate of another name")
	}
	rule("wrong.test", ", sni: app.test, subjectAltNames: [app.test]")
	p.until(from("app.test"), "http://wrong.test/")
}

// A secret that nobody serves costs its own cluster only: what else discovery tells, before and after, arrives.
func TestACredentialThatNobodyServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.service("app.test", w.backend("app"))
	w.service("secret.test", w.backend("secret"))
	w.apply("DestinationRule secret", "host: secret.test\ntrafficPolicy: {tls: {mode: MUTUAL, credentialName: nobody}}")
	p := w.sidecar("client", "")
	p.until(from("app"), "http://app.test/")
	p.until(status(503), "http://secret.test/")
	w.service("late.test", w.backend("late"))
	p.until(from("late"), "http://late.test/")
}
