package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// Times of a pair.
const (
	life     = 90 * 24 * time.Hour
	replaced = 60 * 24 * time.Hour // age at which a pair is replaced
	early    = ca.Early
	settling = 5 * time.Minute // age at which it is served: by then all API servers have its root
)

// pair is a certificate with its key, and the root that has signed it: PEM.
type pair struct {
	certificate, key, root []byte
	tls                    tls.Certificate
}

// newPair makes a pair for names: DNS names and addresses. The root's key is not kept.
func newPair(names []string, now time.Time) (*pair, error) {
	root, err := ca.NewRoot("pilotlight webhooks", life, now)
	if err != nil {
		return nil, err
	}
	authority, err := ca.Read(root, now)
	if err != nil {
		return nil, err
	}
	certificate, key, err := authority.Server("pilotlight webhook", names, ca.Identity{}, life, now)
	if err != nil {
		return nil, err
	}
	return readPair(certificate, key, root.Roots)
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
