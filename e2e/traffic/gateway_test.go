package traffic

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
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
	app, secure := w.Backend("app"), w.tlsBackend(ca, "secure.test")
	w.Service("app.test", app)
	w.Apply("ServiceEntry secure", fmt.Sprintf("hosts: [secure.test]\nlocation: MESH_INTERNAL\nresolution: STATIC\n"+
		"ports: [{number: 443, name: tls, protocol: TLS}]\nendpoints: [{address: %s, ports: {tls: %d}}]", secure.IP, secure.Port))
	bind := w.Address()
	w.Apply("Gateway gw", strings.NewReplacer("BIND", bind, "CA/", ca.dir+"/").Replace(`
		selector: {gateway: gw}
		servers:
		- {port: {number: 18080, name: http, protocol: HTTP}, bind: BIND, hosts: ["*"]}
		- {port: {number: 18081, name: redirect, protocol: HTTP}, bind: BIND, hosts: ["*"], tls: {httpsRedirect: true}}
		- {port: {number: 18443, name: simple, protocol: HTTPS}, bind: BIND, hosts: [simple.test], tls: {mode: SIMPLE, serverCertificate: CA/simple.test.pem, privateKey: CA/simple.test.key}}
		- {port: {number: 18443, name: mutual, protocol: HTTPS}, bind: BIND, hosts: [mutual.test], tls: {mode: MUTUAL, serverCertificate: CA/mutual.test.pem, privateKey: CA/mutual.test.key, caCertificates: CA/ca.pem, subjectAltNames: [client.test]}}
		- {port: {number: 18443, name: optional, protocol: HTTPS}, bind: BIND, hosts: [optional.test], tls: {mode: OPTIONAL_MUTUAL, serverCertificate: CA/optional.test.pem, privateKey: CA/optional.test.key, caCertificates: CA/ca.pem}}
		- {port: {number: 18443, name: passthrough, protocol: TLS}, bind: BIND, hosts: [secure.test], tls: {mode: PASSTHROUGH}}
		- {port: {number: 18445, name: wide, protocol: HTTPS}, bind: BIND, hosts: ["*.wide.test"], tls: {mode: SIMPLE, serverCertificate: CA/simple.test.pem, privateKey: CA/simple.test.key}}
		- {port: {number: 18445, name: narrow, protocol: HTTPS}, bind: BIND, hosts: [b.wide.test], tls: {mode: MUTUAL, serverCertificate: CA/mutual.test.pem, privateKey: CA/mutual.test.key, caCertificates: CA/ca.pem}}
		- {port: {number: 18444, name: auto, protocol: TLS}, bind: BIND, hosts: ["*.test"], tls: {mode: AUTO_PASSTHROUGH}}
	`),
		"VirtualService app", "hosts: [app.test, simple.test, mutual.test, optional.test, a.wide.test, b.wide.test]\ngateways: [gw]\nhttp: [{match: [{uri: {prefix: /app}}], route: [{destination: {host: app.test}}]}]",
		"VirtualService secure", "hosts: [secure.test]\ngateways: [gw]\ntls: [{match: [{port: 18443, sniHosts: [secure.test]}], route: [{destination: {host: secure.test}}]}]",
	)
	p := w.GatewayEnvoy("gw")
	plain := lab.ClientTo(bind+":18080", nil)
	w.Await(plain, "http://app.test/app/x", lab.From("app"))
	w.Await(plain, "http://app.test:18080/app", lab.From("app"))
	w.Await(plain, "http://app.test/other", lab.Status(404))
	w.Await(plain, "http://unknown.test/app", lab.Status(404))
	moved := w.Await(lab.ClientTo(bind+":18081", nil), "http://app.test/app", lab.Status(301))
	if to := moved.Header.Get("Location"); to != "https://app.test/app" {
		t.Errorf("redirected to %s", to)
	}
	trusting := lab.ClientTo(bind+":18443", &tls.Config{RootCAs: ca.Pool()})
	bearing := func(pair tls.Certificate) *http.Client {
		return lab.ClientTo(bind+":18443", &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{pair}})
	}
	refused := func(client *http.Client, target, what string) {
		t.Helper()
		if a, err := lab.Exchange(client, http.MethodGet, target); err == nil {
			t.Errorf("%s takes %s: %d", target, what, a.Status)
		}
	}
	w.Await(trusting, "https://simple.test/app", lab.From("app"))
	w.Await(bearing(client), "https://mutual.test/app", lab.From("app"))
	wide := lab.ClientTo(bind+":18445", &tls.Config{ServerName: "a.wide.test", InsecureSkipVerify: true})
	w.Await(wide, "https://a.wide.test/app", lab.From("app"))
	for _, host := range []string{"b.wide.test", "B.Wide.TEST", "b.wide.test:18445", "b.wide.test."} {
		w.Await(wide, "https://"+host+"/app", lab.Status(http.StatusMisdirectedRequest))
	}
	w.Await(lab.ClientTo(bind+":18445", &tls.Config{ServerName: "b.wide.test", InsecureSkipVerify: true, Certificates: []tls.Certificate{client}}),
		"https://b.wide.test/app", lab.From("app"))
	refused(trusting, "https://mutual.test/app", "a client without a certificate")
	refused(bearing(ca.issue(w, "stranger.test")), "https://mutual.test/app", "a client of another name")
	w.Await(trusting, "https://optional.test/app", lab.From("app"))
	known := w.Await(bearing(client), "https://optional.test/app", lab.From("app"))
	if told := known.Echo.Header.Get("x-forwarded-client-cert"); !strings.Contains(told, "DNS=client.test") {
		t.Errorf("the backend is told of the client's certificate %q", told)
	}
	refused(bearing(w.certificates().issue(w, "client.test")), "https://optional.test/app", "a certificate of another authority")
	w.Await(trusting, "https://secure.test/", lab.From("secure.test"))
	w.Await(lab.ClientTo(bind+":18444", &tls.Config{RootCAs: ca.Pool(), ServerName: "outbound_.443_._.secure.test", InsecureSkipVerify: true}), "https://secure.test/", lab.From("secure.test"))
	if n := p.Stat(`^listener\..*_18443\.ssl\.fail_verify_`); n < 3 {
		t.Errorf("Envoy counts %d certificates that it did not take, want three", n)
	}
	if n := p.Stat(`^listener\..*_18443\.ssl\.handshake$`); n < 2 {
		t.Errorf("Envoy counts %d handshakes, want those of simple and mutual", n)
	}
	if n := p.Stat(`^cluster\.outbound\|443\|\|secure\.test\.upstream_cx_total$`); n == 0 {
		t.Error("Envoy counts no connection that it passed on")
	}
	w.replay(p)
}
