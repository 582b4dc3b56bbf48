package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// authority makes certificates of one root, as files.
type authority struct {
	dir  string
	root *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (w *world) authority() *authority {
	w.t.Helper()
	a := &authority{dir: w.t.TempDir()}
	a.root = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.check(err)
	a.key = key
	der, err := x509.CreateCertificate(rand.Reader, a.root, a.root, &key.PublicKey, key)
	w.check(err)
	w.check(os.WriteFile(a.path("ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(w *world, name string) tls.Certificate {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, &key.PublicKey, a.key)
	w.check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	w.check(err)
	chain, text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	w.check(os.WriteFile(a.path(name+".pem"), chain, 0o600))
	w.check(os.WriteFile(a.path(name+".key"), text, 0o600))
	pair, err := tls.X509KeyPair(chain, text)
	w.check(err)
	return pair
}

func (a *authority) pool(w *world) *x509.CertPool {
	data, err := os.ReadFile(a.path("ca.pem"))
	w.check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data)
	return pool
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

// await asks through a client until the answer is as wanted.
func (w *world) await(client *http.Client, target string, want func(answer) error) answer {
	w.t.Helper()
	var last answer
	if err := lab.Eventually(stopLimit, func() (err error) {
		if last, err = exchange(client, http.MethodGet, target); err != nil {
			return err
		}
		return want(last)
	}); err != nil {
		w.t.Fatalf("%s: %v; discovery says:\n%s", target, err, w.discovery.Log())
	}
	return last
}

// An ingress gateway takes plain HTTP, TLS and mutual TLS, passes TLS on by server name, redirects, and routes by host.
func TestIngressGateway(t *testing.T) {
	w := newWorld(t)
	ca := w.authority()
	ca.issue(w, "simple.test")
	ca.issue(w, "mutual.test")
	client := ca.issue(w, "client.test")
	app, secure := w.backend("app"), w.tlsBackend(ca, "secure.test")
	w.service("app.test", app)
	w.apply("ServiceEntry secure", fmt.Sprintf("hosts: [secure.test]\nlocation: MESH_INTERNAL\nresolution: STATIC\n"+
		"ports: [{number: 443, name: tls, protocol: TLS}]\nendpoints: [{address: %s, ports: {tls: %d}}]", secure.ip, secure.port))
	bind := w.address()
	w.apply("Gateway gw", strings.NewReplacer("BIND", bind, "CA/", ca.dir+"/").Replace(`
		selector: {gateway: gw}
		servers:
		- {port: {number: 18080, name: http, protocol: HTTP}, bind: BIND, hosts: ["*"]}
		- {port: {number: 18081, name: redirect, protocol: HTTP}, bind: BIND, hosts: ["*"], tls: {httpsRedirect: true}}
		- {port: {number: 18443, name: simple, protocol: HTTPS}, bind: BIND, hosts: [simple.test], tls: {mode: SIMPLE, serverCertificate: CA/simple.test.pem, privateKey: CA/simple.test.key}}
		- {port: {number: 18443, name: mutual, protocol: HTTPS}, bind: BIND, hosts: [mutual.test], tls: {mode: MUTUAL, serverCertificate: CA/mutual.test.pem, privateKey: CA/mutual.test.key, caCertificates: CA/ca.pem, subjectAltNames: [client.test]}}
		- {port: {number: 18443, name: passthrough, protocol: TLS}, bind: BIND, hosts: [secure.test], tls: {mode: PASSTHROUGH}}
		- {port: {number: 18444, name: auto, protocol: TLS}, bind: BIND, hosts: ["*.test"], tls: {mode: AUTO_PASSTHROUGH}}
	`),
		"VirtualService app", "hosts: [app.test, simple.test, mutual.test]\ngateways: [gw]\nhttp: [{match: [{uri: {prefix: /app}}], route: [{destination: {host: app.test}}]}]",
		"VirtualService secure", "hosts: [secure.test]\ngateways: [gw]\ntls: [{match: [{port: 18443, sniHosts: [secure.test]}], route: [{destination: {host: secure.test}}]}]",
	)
	p := w.gateway("gw")
	plain := clientTo(bind+":18080", nil)
	w.await(plain, "http://app.test/app/x", from("app"))
	w.await(plain, "http://app.test:18080/app", from("app"))
	w.await(plain, "http://app.test/other", status(404))
	w.await(plain, "http://unknown.test/app", status(404))
	moved := w.await(clientTo(bind+":18081", nil), "http://app.test/app", status(301))
	if to := moved.header.Get("Location"); to != "https://app.test/app" {
		t.Errorf("redirected to %s", to)
	}
	roots := ca.pool(w)
	trusting := clientTo(bind+":18443", &tls.Config{RootCAs: roots})
	w.await(trusting, "https://simple.test/app", from("app"))
	if _, err := exchange(trusting, http.MethodGet, "https://mutual.test/app"); err == nil {
		t.Error("mutual TLS takes a client without a certificate")
	}
	stranger := ca.issue(w, "stranger.test")
	if _, err := exchange(clientTo(bind+":18443", &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{stranger}}), http.MethodGet, "https://mutual.test/app"); err == nil {
		t.Error("mutual TLS takes a client of another name")
	}
	w.await(clientTo(bind+":18443", &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}}), "https://mutual.test/app", from("app"))
	w.await(trusting, "https://secure.test/", from("secure.test"))
	w.await(clientTo(bind+":18444", &tls.Config{RootCAs: roots, ServerName: "outbound_.443_._.secure.test", InsecureSkipVerify: true}), "https://secure.test/", from("secure.test"))
	if n := p.stat(`^listener\..*_18443\.ssl\.handshake$`); n < 2 {
		t.Errorf("Envoy counts %d handshakes, want those of simple and mutual", n)
	}
	if n := p.stat(`^cluster\.outbound\|443\|\|secure\.test\.upstream_cx_total$`); n == 0 {
		t.Error("Envoy counts no connection that it passed on")
	}
}

// tlsBackend is a backend that ends TLS itself.
func (w *world) tlsBackend(ca *authority, name string) *backend {
	w.t.Helper()
	b := &backend{name: name, ip: w.address()}
	b.status.Store(200)
	l, err := tls.Listen("tcp", b.ip+":0", &tls.Config{Certificates: []tls.Certificate{ca.issue(w, name)}})
	w.check(err)
	b.port = l.Addr().(*net.TCPAddr).Port
	b.server = &http.Server{Handler: b}
	go b.server.Serve(l)
	w.t.Cleanup(func() { b.server.Close() })
	return b
}

// A DestinationRule encrypts what leaves the proxy, and checks who answers.
func TestTLSOrigination(t *testing.T) {
	w := newWorld(t)
	ca := w.authority()
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
	p.until(status(503), "http://wrong.test/")
	if n := p.stat(`^cluster\.outbound\|80\|\|wrong\.test\.ssl\.fail_verify_san$`); n == 0 {
		t.Error("Envoy counts no certificate of another name")
	}
	rule("wrong.test", ", sni: app.test, subjectAltNames: [app.test]")
	p.until(from("app.test"), "http://wrong.test/")
}
