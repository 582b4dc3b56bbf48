package relay

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/internal/binding"
)

// TLS is mutual TLS with discovery.
type TLS struct {
	SAN string // that its certificate must have: a URI (spiffe://…), an IP address or a DNS name
	// Material returns what is used for the next handshake, so that a rotation needs no new configuration.
	Material func() (tls.Certificate, *x509.CertPool, error)
}

// config returns a configuration that reads the material at each handshake. Discovery is known by SAN, not by the name that
// was dialled, so the check of the standard library is replaced by verify.
func (t TLS) config(host string) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", binding.HTTP2}, InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, _, err := t.Material()
			return &own, err
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			_, roots, err := t.Material()
			if err != nil {
				return err
			}
			return verify(s.PeerCertificates, roots, t.SAN)
		},
	}
	if _, err := netip.ParseAddr(host); err != nil {
		c.ServerName = host
	}
	return c
}

// verify checks a server's chain, leaf first.
func verify(chain []*x509.Certificate, roots *x509.CertPool, san string) error {
	if len(chain) == 0 || roots == nil || san == "" {
		return errors.New("discovery shows no certificate, or there is nothing to check it by")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return fmt.Errorf("discovery's certificate: %w", err)
	}
	names := cert.Identities(chain[0])
	if !slices.Contains(names, san) {
		return fmt.Errorf("discovery shows a certificate of %q, want %q", names, san)
	}
	return nil
}
