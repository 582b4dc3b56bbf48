package cert

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// blocks returns the PEM blocks of a file, one at least. Text between blocks is allowed, as Envoy allows it, but
// nothing that was a block: a half-written file is often valid up to a point.
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

func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	found, err := blocks(data)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for i, block := range found {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block %d is %q, want CERTIFICATE", i+1, block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", i+1, err)
		}
		out = append(out, certificate)
	}
	return out, nil
}

// parseKey takes PKCS #8, PKCS #1 and SEC 1, the last with or without a block of parameters before it.
func parseKey(data []byte) (crypto.Signer, error) {
	found, err := blocks(data)
	if err != nil {
		return nil, err
	}
	if len(found) == 2 && found[0].Type == "EC PARAMETERS" {
		found = found[1:]
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
