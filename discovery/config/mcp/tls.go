package mcp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/internal/binding"
	"github.com/pilotlight/pilotlight/internal/safefile"
	"github.com/pilotlight/pilotlight/internal/spiffe"
)

// maxFile is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxFile = 4 << 20

// secure reads the files of the settings; nil is plain text. address is host:port of the server.
func secure(address string, s *networking.ClientTLSSettings) (credentials.TransportCredentials, error) {
	if s == nil || s.Mode == networking.ClientTLSSettings_DISABLE {
		return insecure.NewCredentials(), nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", address, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(s.Sni, host), NextProtos: []string{"h2", binding.HTTP2}}
	if s.CaCertificates != "" {
		pem, err := safefile.Read(s.CaCertificates, maxFile)
		if err != nil {
			return nil, fmt.Errorf("read caCertificates: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read caCertificates: %s: no certificate in it", s.CaCertificates)
		}
	}
	if s.Mode == networking.ClientTLSSettings_MUTUAL {
		pair, err := safefile.KeyPair(s.ClientCertificate, s.PrivateKey, maxFile)
		if err != nil {
			return nil, fmt.Errorf("read clientCertificate and privateKey: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	switch {
	case s.InsecureSkipVerify.GetValue():
		c.InsecureSkipVerify = true
	case len(s.SubjectAltNames) > 0:
		c.InsecureSkipVerify = true // the library's check is replaced by verify, which checks the chain
		c.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, c.RootCAs, s.SubjectAltNames) }
	}
	return credentials.NewTLS(c), nil
}

// verify checks the chain of a server's certificate, and that it has one of the names.
func verify(state tls.ConnectionState, roots *x509.CertPool, names []string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	leaf, between := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return err
	}
	has := slices.Clone(leaf.DNSNames)
	uris, err := spiffe.URIs(leaf)
	if err != nil {
		return err
	}
	if _, err := spiffe.Of(leaf); err != nil && slices.ContainsFunc(uris, spiffe.Like) {
		return fmt.Errorf("the server's identity: %w", err)
	}
	has = append(has, uris...)
	for _, ip := range leaf.IPAddresses {
		has = append(has, ip.String())
	}
	if !slices.ContainsFunc(has, func(name string) bool { return slices.Contains(names, name) }) {
		return fmt.Errorf("the server's certificate is for %q, want one of %q", has, names)
	}
	return nil
}
