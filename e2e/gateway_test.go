package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An ingress gateway takes plain HTTP, TLS and mutual TLS, passes TLS on by server name, redirects, and routes by host.
func TestIngressGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca := w.certificates()
	ca.issue(w, "simple.test")
	ca.issue(w, "mutual.test")
	ca.issue(w, "optional.test")
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
		- {port: {number: 18443, name: optional, protocol: HTTPS}, bind: BIND, hosts: [optional.test], tls: {mode: OPTIONAL_MUTUAL, serverCertificate: CA/optional.test.pem, privateKey: CA/optional.test.key, caCertificates: CA/ca.pem}}
		- {port: {number: 18443, name: passthrough, protocol: TLS}, bind: BIND, hosts: [secure.test], tls: {mode: PASSTHROUGH}}
		- {port: {number: 18444, name: auto, protocol: TLS}, bind: BIND, hosts: ["*.test"], tls: {mode: AUTO_PASSTHROUGH}}
	`),
		"VirtualService app", "hosts: [app.test, simple.test, mutual.test, optional.test]\ngateways: [gw]\nhttp: [{match: [{uri: {prefix: /app}}], route: [{destination: {host: app.test}}]}]",
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
	trusting := clientTo(bind+":18443", &tls.Config{RootCAs: ca.Pool()})
	bearing := func(pair tls.Certificate) *http.Client {
		return clientTo(bind+":18443", &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{pair}})
	}
	refused := func(client *http.Client, target, what string) {
		t.Helper()
		if a, err := exchange(client, http.MethodGet, target); err == nil {
			t.Errorf("%s takes %s: %d", target, what, a.status)
		}
	}
	w.await(trusting, "https://simple.test/app", from("app"))
	w.await(bearing(client), "https://mutual.test/app", from("app"))
	refused(trusting, "https://mutual.test/app", "a client without a certificate")
	refused(bearing(ca.issue(w, "stranger.test")), "https://mutual.test/app", "a client of another name")
	w.await(trusting, "https://optional.test/app", from("app"))
	known := w.await(bearing(client), "https://optional.test/app", from("app"))
	if told := known.echo.Header.Get("x-forwarded-client-cert"); !strings.Contains(told, "DNS=client.test") {
		t.Errorf("the backend is told of the client's certificate %q", told)
	}
	refused(bearing(w.certificates().issue(w, "client.test")), "https://optional.test/app", "a certificate of another authority")
	w.await(trusting, "https://secure.test/", from("secure.test"))
	w.await(clientTo(bind+":18444", &tls.Config{RootCAs: ca.Pool(), ServerName: "outbound_.443_._.secure.test", InsecureSkipVerify: true}), "https://secure.test/", from("secure.test"))
	if n := p.stat(`^listener\..*_18443\.ssl\.fail_verify_`); n < 3 {
		t.Errorf("Envoy counts %d certificates that it did not take, want three", n)
	}
	if n := p.stat(`^listener\..*_18443\.ssl\.handshake$`); n < 2 {
		t.Errorf("Envoy counts %d handshakes, want those of simple and mutual", n)
	}
	if n := p.stat(`^cluster\.outbound\|443\|\|secure\.test\.upstream_cx_total$`); n == 0 {
		t.Error("Envoy counts no connection that it passed on")
	}
}
