package traffic

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// certificates are identities of one authority, as files and as Go takes them.
type certificates struct {
	*lab.Authority
	dir    string
	issued int64
}

func (w *world) certificates() *certificates {
	w.T.Helper()
	authority, err := lab.NewAuthority("root")
	w.Check(err)
	return &certificates{Authority: authority, dir: w.T.TempDir()}
}

func (c *certificates) path(name string) string { return filepath.Join(c.dir, name) }

// issue writes NAME.pem and NAME.key, beside ca.pem.
func (c *certificates) issue(w *world, name string) tls.Certificate {
	w.T.Helper()
	c.issued++
	identity, err := c.Issue(name, c.issued)
	w.Check(err)
	w.Check(identity.Write(c.dir, name))
	pair, err := identity.Pair()
	w.Check(err)
	return pair
}

// tlsBackend is a backend that ends TLS itself.
func (w *world) tlsBackend(ca *certificates, name string) *lab.Backend {
	w.T.Helper()
	return w.encrypted(name, &tls.Config{Certificates: []tls.Certificate{ca.issue(w, name)}})
}

// mutualBackend is a backend that ends mutual TLS itself, as a sidecar beside it would.
func (w *world) mutualBackend(ca *certificates, name string) *lab.Backend {
	w.T.Helper()
	return w.encrypted(name, &tls.Config{
		Certificates: []tls.Certificate{ca.issue(w, name+".test")}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	})
}

func (w *world) encrypted(name string, config *tls.Config) *lab.Backend {
	w.T.Helper()
	b := &lab.Backend{Name: name, IP: w.Address()}
	l, err := tls.Listen("tcp", b.IP+":0", config)
	w.Check(err)
	b.Serve(w.World, l)
	return b
}

// A DestinationRule encrypts what leaves the proxy, and checks who answers.
func TestTLSOrigination(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca := w.certificates()
	b := w.tlsBackend(ca, "app.test")
	w.Service("app.test", b)
	w.Service("wrong.test", b)
	rule := func(host, rest string) {
		w.Apply("DestinationRule "+host, fmt.Sprintf("host: %s\ntrafficPolicy: {tls: {mode: SIMPLE, caCertificates: %s%s}}", host, ca.path("ca.pem"), rest))
	}
	rule("app.test", "")
	rule("wrong.test", "")
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.From("app.test"), "http://app.test/")
	p.Until(lab.From("app.test"), "http://app.test./")
	p.Until(lab.Status(503), "http://wrong.test/")
	if n := p.Stat(`^cluster\.outbound\|80\|\|wrong\.test\.ssl\.fail_verify_san$`); n == 0 {
		t.Error("Envoy counts no certificate of another name")
	}
	rule("wrong.test", ", sni: app.test, subjectAltNames: [app.test]")
	p.Until(lab.From("app.test"), "http://wrong.test/")
	w.replay(p)
}

// A secret that nobody serves costs its own cluster only: what else discovery tells, before and after, arrives.
func TestACredentialThatNobodyServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Service("app.test", w.Backend("app"))
	w.Service("secret.test", w.Backend("secret"))
	w.Apply("DestinationRule secret", "host: secret.test\ntrafficPolicy: {tls: {mode: MUTUAL, credentialName: nobody}}")
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.From("app"), "http://app.test/")
	p.Until(lab.Status(503), "http://secret.test/")
	w.Service("late.test", w.Backend("late"))
	p.Until(lab.From("late"), "http://late.test/")
}
