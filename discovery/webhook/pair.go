package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Times of a pair.
const (
	life     = 90 * 24 * time.Hour
	replaced = 60 * 24 * time.Hour // age at which a pair is replaced
	early    = time.Hour           // how long before its creation it is valid, for clocks that differ
	settling = 5 * time.Minute     // age at which it is served: by then all API servers have its root
)

// pair is a certificate with its key, and the root that has signed it: PEM.
type pair struct {
	certificate, key, root []byte
	tls                    tls.Certificate
}

// newPair makes a pair for names: DNS names and addresses. The root's key is not kept.
func newPair(names []string, now time.Time) (*pair, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	root := template("pilotlight webhooks", now)
	root.IsCA, root.BasicConstraintsValid, root.MaxPathLenZero, root.KeyUsage = true, true, true, x509.KeyUsageCertSign
	leaf := template("pilotlight webhook", now)
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, address)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return nil, fmt.Errorf("make a root: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), rootKey)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return readPair(block("CERTIFICATE", leafDER), block("PRIVATE KEY", keyDER), block("CERTIFICATE", rootDER))
}

func template(name string, now time.Time) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand does not fail
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name, SerialNumber: serial.Text(16)}, SerialNumber: serial,
		NotBefore: now.Add(-early), NotAfter: now.Add(life),
	}
}

// readPair reads a pair, and finds its root among roots. It does not check the validity. An error does not contain any
// part of the key.
func readPair(certificate, key, roots []byte) (*pair, error) {
	known, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, errors.New("the key and the certificate are none, or do not belong together")
	}
	if known.Leaf == nil {
		if known.Leaf, err = x509.ParseCertificate(known.Certificate[0]); err != nil {
			return nil, fmt.Errorf("parse the certificate: %w", err)
		}
	}
	for block, rest := pem.Decode(roots); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err == nil && root.IsCA && known.Leaf.CheckSignatureFrom(root) == nil {
			return &pair{certificate, key, pem.EncodeToMemory(block), known}, nil
		}
	}
	return nil, errors.New("no root has signed the certificate")
}

func (p *pair) leaf() *x509.Certificate { return p.tls.Leaf }

// names returns the names of the certificate.
func (p *pair) names() []string {
	out := slices.Clone(p.leaf().DNSNames)
	for _, address := range p.leaf().IPAddresses {
		out = append(out, address.String())
	}
	return out
}

// missing returns those of the names for which the certificate is not valid.
func (p *pair) missing(names []string) (out []string) {
	for _, name := range names {
		if p.leaf().VerifyHostname(name) != nil {
			out = append(out, name)
		}
	}
	return out
}

// serves reports whether clients accept the pair now.
func (p *pair) serves(names []string, now time.Time) bool {
	return p != nil && p.valid(now) && len(p.missing(names)) == 0
}

func (p *pair) valid(now time.Time) bool {
	return !now.Before(p.leaf().NotBefore) && now.Before(p.leaf().NotAfter)
}

// made returns when the pair was made.
func (p *pair) made() time.Time { return p.leaf().NotBefore.Add(early) }

// old reports whether the pair is to be replaced, also if it was made with a shorter validity.
func (p *pair) old(now time.Time) bool {
	third := p.leaf().NotAfter.Sub(p.made()) / 3
	return !now.Before(p.made().Add(replaced)) || p.leaf().NotAfter.Sub(now) <= third
}
