package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

const (
	// RootLife is how long a root is valid that is made here.
	RootLife = 10 * 365 * 24 * time.Hour

	// RootName begins the subject of a root that is made here.
	RootName = "pilotlight root"

	// Early is how long before now a certificate is valid, for clocks that differ.
	Early = time.Hour
)

// NewRoot makes a root with a key of P-256. Its subject is name and a generation of its own: two roots of one subject are
// confused by verifiers that look for an issuer by its name.
func NewRoot(name string, life time.Duration, now time.Time) (Files, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Files{}, fmt.Errorf("make a key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Files{}, fmt.Errorf("write a public key: %w", err)
	}
	id := sha256.Sum256(public)
	serial := newSerial()
	root := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name + " " + serial.Text(16)},
		NotBefore: now.Add(-Early).UTC(), NotAfter: now.Add(life).UTC(),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		SubjectKeyId: id[:20], AuthorityKeyId: id[:20],
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		return Files{}, fmt.Errorf("make a root: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Files{}, fmt.Errorf("write a key: %w", err)
	}
	text := encode(certificateBlock, der)
	return Files{Cert: text, Key: encode("PRIVATE KEY", secret), Roots: text}, nil
}

// newSerial returns 120 random bits.
func newSerial() *big.Int {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand does not fail
	return serial.SetBit(serial, 119, 1)                                     // of one length, and never zero
}
