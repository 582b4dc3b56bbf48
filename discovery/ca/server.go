package ca

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/netip"
	"net/url"
	"time"
)

// Server makes a key and a certificate for a server: for DNS names and addresses, and for an identity unless that is zero.
func (a *Authority) Server(name string, names []string, id Identity, life time.Duration, now time.Time) (certificate, key []byte, err error) {
	public, secret, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if name != "" {
		template.Subject = pkix.Name{CommonName: name}
	}
	if id != (Identity{}) {
		template.URIs = []*url.URL{id.uri()}
	}
	for _, name := range names {
		if address, err := netip.ParseAddr(name); err == nil {
			template.IPAddresses = append(template.IPAddresses, address.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf, err := a.sign(template, public, life, now)
	if err != nil {
		return nil, nil, err
	}
	return bytes.Join(leaf.Chain, nil), encode("PRIVATE KEY", secret), nil
}

// Pair is Server for a listener of TLS.
func (a *Authority) Pair(names []string, id Identity, life time.Duration, now time.Time) (*tls.Certificate, error) {
	certificate, key, err := a.Server("", names, id, life, now)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read a certificate that was made: %w", err)
	}
	return &pair, nil
}
