package cert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// now is the time of every test, and of a bubble's start; what issue makes is valid for an hour around it.
var now = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// issued is a certificate with its key.
type issued struct {
	*x509.Certificate
	key crypto.Signer
}

// issue makes a certificate; without an issuer it is self-signed.
func issue(t testing.TB, name string, by *issued, key crypto.Signer, change func(*x509.Certificate)) issued {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x3e9), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{name}, URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/default/sa/" + name}},
	}
	if change != nil {
		change(template)
	}
	parent := &issued{template, key}
	if by != nil {
		parent = by
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.Certificate, key.Public(), parent.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return issued{certificate, key}
}

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func edKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (i issued) pem() string { return block("CERTIFICATE", i.Raw, nil) }

func pkcs8(t testing.TB, key crypto.Signer) string {
	t.Helper()
	return block("PRIVATE KEY", must(t)(x509.MarshalPKCS8PrivateKey(key)), nil)
}

func sec1(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	return block("EC PRIVATE KEY", must(t)(x509.MarshalECPrivateKey(key)), nil)
}

func block(kind string, der []byte, headers map[string]string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der, Headers: headers}))
}

func must(t testing.TB) func([]byte, error) []byte {
	return func(data []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
}

func pkcs1(i issued) string {
	return block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(i.key.(*rsa.PrivateKey)), nil)
}
