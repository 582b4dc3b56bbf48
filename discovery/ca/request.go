package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Bounds of a request.
const (
	maxRequest  = 32 << 10 // bytes of PEM
	leastRSA    = 2048     // bits
	mostRSA     = 8192     // bits: checking a signature costs their square
	leastPublic = 65537    // exponent
)

// Key is the public key of a request whose sender has proved to have the private one.
type Key struct {
	public crypto.PublicKey
	der    []byte // SubjectPublicKeyInfo
}

// ReadRequest reads a certificate signing request: one block of PEM. Names, extensions and everything else but the key are
// ignored.
func ReadRequest(text []byte) (Key, error) {
	if len(text) > maxRequest {
		return Key{}, fmt.Errorf("the request has %d bytes, at most %d are allowed", len(text), maxRequest)
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return Key{}, errors.New("the request is no PEM, want a block CERTIFICATE REQUEST")
	case block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST":
		return Key{}, fmt.Errorf("the request is a block %q, want CERTIFICATE REQUEST", block.Type)
	case len(bytes.TrimSpace(rest)) > 0:
		return Key{}, errors.New("something follows the request, want one block")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("parse the request: %w", err)
	}
	if err := checkRequested(request.PublicKey); err != nil { // before the signature, whose cost depends on the key
		return Key{}, err
	}
	if err := request.CheckSignature(); err != nil {
		return Key{}, fmt.Errorf("the request is not signed with its key: %w", err)
	}
	return Key{request.PublicKey, request.RawSubjectPublicKeyInfo}, nil
}

// checkRequested refuses the keys that are not signed.
func checkRequested(public crypto.PublicKey) error {
	const want = "want ECDSA of P-256 or P-384, or RSA of 2048 to 8192 bits with an exponent of 65537 or more"
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return fmt.Errorf("the request's key is of curve %s, %s", key.Curve.Params().Name, want)
		}
		return nil
	case *rsa.PublicKey:
		switch bits := key.N.BitLen(); {
		case bits < leastRSA || bits > mostRSA:
			return fmt.Errorf("the request's key is RSA of %d bits, %s", bits, want)
		case key.E < leastPublic:
			return fmt.Errorf("the request's key is RSA with the exponent %d, %s", key.E, want)
		}
		return nil
	default:
		return fmt.Errorf("the request's key is a %T, %s", public, want)
	}
}
