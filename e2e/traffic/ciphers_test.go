package traffic

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// Of TLS 1.2, sidecars and servers of ISTIO_MUTUAL take the suites of meshMTLS only; other servers of a gateway, and clusters that originate
// TLS, those of tlsDefaults, unless they name their own.
func TestCipherSuitesOfTheMesh(t *testing.T) {
	t.Parallel()
	const (
		strong, weak, other = tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
	)
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte("meshMTLS: {cipherSuites: [ECDHE-ECDSA-AES256-GCM-SHA384]}\n"+
		"tlsDefaults: {cipherSuites: [ECDHE-ECDSA-AES128-GCM-SHA256]}\n"+truth.Logged), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newPeers(t, "--meshConfig", settings)
	own := p.certificate(p.ca.Authority, meshClient, func(*x509.Certificate) {})
	p.ca.issue(p.world, "gw.test")
	bind := p.Address()
	p.Apply("Gateway gw", strings.NewReplacer("BIND", bind, "CA/", p.ca.dir+"/").Replace(`
		selector: {app: gw}
		servers:
		- {port: {number: 18080, name: http, protocol: HTTP}, bind: BIND, hosts: ["*"]}
		- {port: {number: 18443, name: defaults, protocol: HTTPS}, bind: BIND, hosts: ["*"], tls: {mode: SIMPLE, serverCertificate: CA/gw.test.pem, privateKey: CA/gw.test.key}}
		- {port: {number: 18444, name: own, protocol: HTTPS}, bind: BIND, hosts: ["*"], tls: {mode: SIMPLE, serverCertificate: CA/gw.test.pem, privateKey: CA/gw.test.key, cipherSuites: [ECDHE-ECDSA-CHACHA20-POLY1305]}}
		- {port: {number: 18445, name: mesh, protocol: HTTPS}, bind: BIND, hosts: ["*"], tls: {mode: ISTIO_MUTUAL}}
	`))
	suites := map[string]uint16{"strong": strong, "weak": weak, "other": other}
	for _, name := range slices.Sorted(maps.Keys(suites)) { // servers outside, which take one suite each
		b := p.encrypted(name, &tls.Config{Certificates: []tls.Certificate{p.ca.issue(p.world, name+".test")}, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suites[name]}})
		p.Service(name+".test", b)
		p.Apply("DestinationRule "+name, fmt.Sprintf("host: %s.test\ntrafficPolicy: {tls: {mode: SIMPLE, caCertificates: %s}}", name, p.ca.path("ca.pem")),
			"VirtualService "+name, fmt.Sprintf("hosts: [%[1]s.test]\ngateways: [gw]\nhttp: [{route: [{destination: {host: %[1]s.test}}]}]", name))
	}
	p.RunEnvoy("router~"+p.Address()+"~gw.default~default.svc.cluster.local", "", p.metadata("gw", "spiffe://cluster.local/ns/default/sa/gw"))
	// shake makes a handshake with one suite of TLS 1.2, or, with none, of TLS 1.3.
	shake := func(address string, alpn []string, suite uint16) error {
		config := &tls.Config{InsecureSkipVerify: true, Certificates: own, ServerName: "app.test", NextProtos: alpn, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}}
		if suite == 0 {
			config.MinVersion, config.MaxVersion, config.CipherSuites = tls.VersionTLS13, tls.VersionTLS13, nil
		}
		c, err := tls.Dial("tcp", address, config)
		if err != nil {
			return err
		}
		return c.Close()
	}
	for door, test := range map[string]struct {
		address string
		alpn    []string
		taken   string
	}{
		"sidecar, HTTP":                   {fmt.Sprintf("%s:%d", p.server, p.ports["HTTP"]), []string{"istio-http/1.1", "istio"}, "strong"},
		"sidecar, TCP":                    {fmt.Sprintf("%s:%d", p.server, p.ports["TCP"]), []string{"istio"}, "strong"},
		"gateway":                         {bind + ":18443", nil, "weak"},
		"gateway, with suites of its own": {bind + ":18444", nil, "other"},
		"gateway, server of ISTIO_MUTUAL": {bind + ":18445", nil, "strong"},
	} {
		p.Check(lab.Eventually(lab.StopLimit, func() error { return shake(test.address, test.alpn, suites[test.taken]) }))
		if err := shake(test.address, test.alpn, 0); err != nil {
			t.Errorf("%s: TLS 1.3: %v", door, err)
		}
		for name, suite := range suites {
			if err := shake(test.address, test.alpn, suite); (err == nil) != (name == test.taken) || err != nil && !strings.Contains(err.Error(), "handshake failure") {
				t.Errorf("%s: %s: %v, want only %s", door, tls.CipherSuiteName(suite), err, test.taken)
			}
		}
	}
	plain := lab.ClientTo(bind+":18080", nil)
	p.Await(plain, "http://weak.test/", lab.From("weak"))
	p.Await(plain, "http://strong.test/", lab.Status(503))
	p.Await(plain, "http://other.test/", lab.Status(503))
}
