package cert

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// blocks returns the PEM blocks of a file, at least one. Text between blocks is allowed, as in Envoy, but no broken
// block: a half-written file is often valid up to a point.
func blocks(data []byte) ([]*pem.Block, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("is empty")
	}
	var out []*pem.Block
	rest := data
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		out, rest = append(out, block), after
	}
	begins, ends := bytes.Count(data, []byte("-----BEGIN ")), bytes.Count(data, []byte("-----END "))
	switch {
	case begins == 0:
		return nil, errors.New("has no PEM block")
	case begins != len(out) || ends != len(out):
		return nil, fmt.Errorf("is half-written: %d PEM blocks begin, %d end, %d are whole", begins, ends, len(out))
	case bytes.IndexByte(rest, 0) >= 0:
		return nil, fmt.Errorf("is half-written: zero bytes after %d PEM blocks", len(out))
	}
	return out, nil
}

// certificateBlocks returns the blocks that OpenSSL reads as certificates; it skips others, such as a CRL or a key
// beside them.
func certificateBlocks(data []byte) ([]*pem.Block, error) {
	found, err := blocks(data)
	if err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(slices.Clone(found), func(b *pem.Block) bool {
		return b.Type != "CERTIFICATE" && b.Type != "X509 CERTIFICATE" && b.Type != "TRUSTED CERTIFICATE"
	})
	if len(out) == 0 {
		return nil, fmt.Errorf("PEM block 1 is %q, want CERTIFICATE", found[0].Type)
	}
	return out, nil
}

// parseCertificates parses a chain, of which every certificate must be valid.
func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	found, err := certificateBlocks(data)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for i, block := range found {
		certificate, err := parseCertificate(block)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", i+1, err)
		}
		out = append(out, certificate)
	}
	return out, nil
}

// Identities returns the subject alternative names of a certificate: URIs, DNS names and IP addresses.
func Identities(c *x509.Certificate) (names []string) {
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// parseRoots parses a bundle, one by one: Envoy accepts roots that Go does not, such as those with a Brainpool curve or
// a negative serial. foreign is the number of roots that Go does not accept. A block that does not have the form of a
// certificate is a fault.
func parseRoots(data []byte) (roots []*x509.Certificate, foreign int, err error) {
	found, err := certificateBlocks(data)
	if err != nil {
		return nil, 0, err
	}
	for i, block := range found {
		certificate, err := parseCertificate(block)
		switch {
		case err == nil:
			roots = append(roots, certificate)
		case looksLikeOne(block.Bytes):
			foreign++
		default:
			return nil, 0, fmt.Errorf("parse certificate %d: %w", i+1, err)
		}
	}
	return roots, foreign, nil
}

func looksLikeOne(der []byte) bool {
	var certificate struct {
		ToBeSigned, Algorithm asn1.RawValue
		Signature             asn1.BitString
	}
	_, err := asn1.Unmarshal(der, &certificate)
	return err == nil
}

// parseCertificate parses a certificate. In a TRUSTED CERTIFICATE block it drops the data after the certificate:
// OpenSSL's settings of its trusted uses.
func parseCertificate(block *pem.Block) (*x509.Certificate, error) {
	der := block.Bytes
	if block.Type == "TRUSTED CERTIFICATE" {
		var certificate asn1.RawValue
		if _, err := asn1.Unmarshal(der, &certificate); err == nil {
			der = certificate.FullBytes
		}
	}
	return x509.ParseCertificate(der)
}

// parseKey parses a key in PKCS #8, PKCS #1 or SEC 1. It ignores other blocks of the file, such as curve parameters or
// a certificate.
func parseKey(data []byte) (crypto.Signer, error) {
	found, err := blocks(data)
	if err != nil {
		return nil, err
	}
	if keys := slices.DeleteFunc(slices.Clone(found), func(b *pem.Block) bool {
		return !strings.HasSuffix(b.Type, "PRIVATE KEY")
	}); len(keys) > 0 {
		found = keys
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("has %d PEM blocks, want one key", len(found))
	}
	block := found[0]
	if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
		return nil, errors.New("is encrypted")
	}
	key, err := parseBlock(block)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", block.Type, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("is a %T, want RSA, ECDSA or Ed25519", key)
	}
	return signer, nil
}

func parseBlock(block *pem.Block) (any, error) {
	switch block.Type {
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	}
	return nil, errors.New("unknown, want PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY")
}
