package mcp

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Servers of TLS are verified by roots and name, and receive the client's certificate if there is one.
func TestServersOfTLS(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	authority, err := lab.NewAuthority("mesh")
	check(err)
	stranger, err := lab.NewAuthority("stranger")
	check(err)
	dir, foreign := t.TempDir(), t.TempDir()
	server, err := authority.Issue("istiod.test", 2)
	check(err)
	client, err := authority.Issue("spiffe://cluster.local/ns/istio-system/sa/pilot", 3)
	check(err)
	check(client.Mount(dir))
	other, err := stranger.Issue("x", 4)
	check(err)
	check(other.Mount(foreign))
	pair, err := server.Pair()
	check(err)

	asks := make(chan tls.ClientAuthType, 1)
	i := &istiod{objects: nil, silent: map[string]bool{}, changed: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	serving := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			ask := <-asks
			asks <- ask
			// In TLS 1.3 a client may write before it reads that its certificate is missing: the write then fails with
			// a broken pipe.
			return &tls.Config{
				Certificates: []tls.Certificate{pair}, ClientAuth: ask, ClientCAs: authority.Pool(), NextProtos: []string{"h2"},
				MaxVersion: tls.VersionTLS12,
			}, nil
		},
	})))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(serving, i)
	done := make(chan error, 1)
	go func() { done <- serving.Serve(l) }()
	defer func() { serving.Stop(); <-done }()

	roots, cert, key := filepath.Join(dir, "root-cert.pem"), filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem")
	simple := func(change func(*networking.ClientTLSSettings)) *networking.ClientTLSSettings {
		s := &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, CaCertificates: roots, Sni: "istiod.test"}
		change(s)
		return s
	}
	for name, test := range map[string]struct {
		settings *networking.ClientTLSSettings
		ask      tls.ClientAuthType
		fault    string // "" for a server that is accepted
	}{
		"its name":            {simple(func(*networking.ClientTLSSettings) {}), tls.NoClientCert, ""},
		"another name":        {simple(func(s *networking.ClientTLSSettings) { s.Sni = "" }), tls.NoClientCert, "certificate"},
		"foreign roots":       {simple(func(s *networking.ClientTLSSettings) { s.CaCertificates = filepath.Join(foreign, "root-cert.pem") }), tls.NoClientCert, "certificate"},
		"the system's roots":  {simple(func(s *networking.ClientTLSSettings) { s.CaCertificates = "" }), tls.NoClientCert, "certificate"},
		"no file of roots":    {simple(func(s *networking.ClientTLSSettings) { s.CaCertificates = "/none" }), tls.NoClientCert, "read caCertificates"},
		"roots that are none": {simple(func(s *networking.ClientTLSSettings) { s.CaCertificates = key }), tls.NoClientCert, "no certificate in it"},
		"one of its names":    {simple(func(s *networking.ClientTLSSettings) { s.SubjectAltNames = []string{"a", "istiod.test"} }), tls.NoClientCert, ""},
		"none of its names":   {simple(func(s *networking.ClientTLSSettings) { s.SubjectAltNames = []string{"a"} }), tls.NoClientCert, "want one of ["},
		"names and foreign roots": {simple(func(s *networking.ClientTLSSettings) {
			s.SubjectAltNames, s.CaCertificates = []string{"istiod.test"}, filepath.Join(foreign, "root-cert.pem")
		}), tls.NoClientCert, "unknown authority"},
		"anything, unchecked": {simple(func(s *networking.ClientTLSSettings) {
			s.Sni, s.CaCertificates, s.InsecureSkipVerify = "", "", wrapperspb.Bool(true)
		}), tls.NoClientCert, ""},
		"a certificate is missing": {simple(func(*networking.ClientTLSSettings) {}), tls.RequireAndVerifyClientCert, "handshake failure"},
		"a certificate": {simple(func(s *networking.ClientTLSSettings) {
			s.Mode, s.ClientCertificate, s.PrivateKey = networking.ClientTLSSettings_MUTUAL, cert, key
		}), tls.RequireAndVerifyClientCert, ""},
		"no file of a certificate": {simple(func(s *networking.ClientTLSSettings) {
			s.Mode, s.ClientCertificate, s.PrivateKey = networking.ClientTLSSettings_MUTUAL, "/none", key
		}), tls.NoClientCert, "read clientCertificate"},
		"plain text": {nil, tls.NoClientCert, "read configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			asks <- test.ask
			defer func() { <-asks }()
			s := New(l.Addr().String(), test.settings, 10*time.Millisecond, quiet())
			if test.fault != "" {
				if err := ends(t, s); err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Errorf("it ends with %v, want %q", err, test.fault)
				}
				return
			}
			_, _, stop := follow(t, s)
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server with two SPIFFE IDs is neither of them: the standard allows one.
func TestServersHaveOneIdentity(t *testing.T) {
	authority, err := lab.NewAuthority("mesh")
	if err != nil {
		t.Fatal(err)
	}
	const own = "spiffe://cluster.local/ns/istio-system/sa/istiod"
	for name, test := range map[string]struct {
		further string
		fault   string // "" for a server that is accepted
	}{
		"one":               {"", ""},
		"a further one":     {"spiffe://cluster.local/ns/other/sa/app", "2 URIs"},
		"another URI, too":  {"https://example.com/", "2 URIs"},
		"a query behind it": {own + "?a", "2 URIs"},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := authority.IssueWith(own, 2, func(c *x509.Certificate) {
				if test.further != "" {
					uri, err := url.Parse(test.further)
					if err != nil {
						t.Fatal(err)
					}
					c.URIs = append(c.URIs, uri)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			pair, err := server.Pair()
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := x509.ParseCertificate(pair.Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			err = verify(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}, authority.Pool(), []string{own})
			if test.fault == "" && err != nil || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
				t.Errorf("got %v, want %q", err, test.fault)
			}
		})
	}
}
