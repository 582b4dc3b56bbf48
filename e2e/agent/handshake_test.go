package agent

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// strict is a listener of mutual TLS with the documented log of refused clients.
func strict(t *testing.T, address string, server lab.Identity, roots []byte) string {
	t.Helper()
	return fmt.Sprintf(`{"name": "strict", "address": %s, %s,
		"listener_filters": [{"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"}}],
		"filter_chains": [{"filter_chain_match": {"transport_protocol": "tls"}, "filters": [{"name": "http", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "strict",
			"route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]}]},
			"http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}],
			"transport_socket": {"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
				"require_client_certificate": true, "common_tls_context": {"tls_certificates": [{"certificate_chain": {"inline_string": %q}, "private_key": {"inline_string": %q}}],
				"validation_context": {"trusted_ca": {"inline_string": %q}}}}}}]}, `,
		lab.SocketAddress(address), documented(t, "**Refused clients.**"), server.Chain, server.Key, roots)
}

// agent why names a client that Envoy refuses at the handshake, or that no filter chain takes, with Envoy's words, and none that is served.
func TestWhyTellsRefusedClients(t *testing.T) {
	t.Parallel()
	mesh, err := lab.NewAuthority("mesh")
	other, failed := lab.NewAuthority("other")
	server, refused := mesh.Issue("server.test", 7)
	if err != nil || failed != nil || refused != nil {
		t.Fatal(err, failed, refused)
	}
	address := ""
	f := startFailingWith(t, func(text string) string {
		if address == "" {
			address = fmt.Sprintf("127.0.0.1:%d", lab.Port(t))
		}
		return strings.Replace(text, `"listeners": [`, `"listeners": [`+strict(t, address, server, mesh.PEM()), 1)
	})
	// as returns the client's address, after it has shown a certificate of an authority; nil for none.
	as := func(from *lab.Authority, change func(*tls.Config), until time.Time) string {
		t.Helper()
		config := &tls.Config{RootCAs: mesh.Pool(), ServerName: "server.test"}
		if from != nil {
			client, err := from.IssueWith("client.test", 9, func(c *x509.Certificate) { c.NotAfter = until })
			f.must(err)
			pair, err := tls.X509KeyPair([]byte(client.Chain), []byte(client.Key))
			f.must(err)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil } // whatever the server asks for
		}
		change(config)
		conn, err := net.Dial("tcp", address)
		f.must(err)
		defer conn.Close()
		f.must(conn.SetDeadline(time.Now().Add(lab.StopLimit)))
		over := tls.Client(conn, config)
		if over.Handshake() == nil {
			_, _ = over.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
			_, _ = over.Read(make([]byte, 100)) // with TLS 1.3 the client hears of the refusal here
		}
		return conn.LocalAddr().String()
	}
	same, later := func(*tls.Config) {}, time.Now().Add(time.Hour)
	good := as(mesh, same, later)
	of := func(client, text string) string {
		return "handshake of " + client + " at " + address + " failed: " + text
	}
	plain, err := net.Dial("tcp", address)
	f.must(err)
	defer plain.Close()
	_, err = plain.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.must(err)
	text := f.awaitWhy(
		of(as(nil, same, later), "the client has shown no certificate: "), "PEER_DID_NOT_RETURN_A_CERTIFICATE",
		of(as(other, same, later), "the client's certificate is refused: "), "CERTIFICATE_VERIFY_FAILED",
		of(as(mesh, same, time.Now().Add(-time.Minute)), "the client's certificate has expired: "), "renew the client's certificate",
		of(as(mesh, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, later), "the client offers no version of TLS that is taken: "),
		of(as(mesh, func(c *tls.Config) { c.RootCAs = other.Pool() }, later), "the client refuses this server's certificate: "),
		"connection of "+plain.LocalAddr().String()+" at "+address+" failed: no filter chain matches: ", "compare its DestinationRule's tls",
	)
	if strings.Contains(text, good) {
		t.Errorf("tells a client that is served, %s:\n%s", good, text)
	}
}
