package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"time"

	"github.com/pilotlight/pilotlight/internal/binding"
)

// Leaf is a certificate that was signed.
type Leaf struct {
	Chain               [][]byte // PEM of each: the leaf, then the certificates up to below a root
	NotBefore, NotAfter time.Time
	Notes               []string // what of the request was not granted
}

// Terms are how long certificates are valid, and where.
type Terms struct {
	Default time.Duration // where a request does not say
	Most    time.Duration
	Bound   bool // to connections that agents open: see package binding
}

// Sign signs a key for an identity, for ttl; zero or less for the default. A longer time than the most, or than the issuer is valid, is cut,
// and noted. It returns an error only where the authority itself is not valid now.
func (a *Authority) Sign(key Key, id Identity, ttl time.Duration, t Terms, now time.Time) (Leaf, error) {
	var notes []string
	if ttl <= 0 {
		ttl = min(t.Default, t.Most)
	}
	if ttl > t.Most {
		notes = append(notes, fmt.Sprintf("ttl %s is cut to %s, the most that is allowed here", ttl, t.Most))
		ttl = t.Most
	}
	template := &x509.Certificate{URIs: []*url.URL{id.uri()}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if t.Bound {
		template.ExtraExtensions = []pkix.Extension{binding.Extension()}
	}
	leaf, err := a.sign(template, key, ttl, now)
	leaf.Notes = append(notes, leaf.Notes...)
	return leaf, err
}

// sign completes a template and signs it.
func (a *Authority) sign(template *x509.Certificate, key Key, ttl time.Duration, now time.Time) (Leaf, error) {
	from, to := a.limits()
	if now.Before(from) || !now.Before(to) {
		return Leaf{}, fmt.Errorf("the authority %s is valid from %s to %s, and now it is %s",
			a.Name(), from.Format(time.RFC3339), to.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	var notes []string
	template.SerialNumber = newSerial()
	template.KeyUsage, template.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	if _, isRSA := key.public.(*rsa.PublicKey); isRSA {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	template.NotBefore, template.NotAfter = now.Add(-Early).UTC(), now.Add(ttl).UTC()
	if template.NotBefore.Before(from) {
		template.NotBefore = from
	}
	if !a.until.IsZero() && template.NotAfter.After(a.until) {
		notes = append(notes, "the certificate ends early, since what is stored of the authority was not read for long: "+a.until.UTC().Format(time.RFC3339))
		template.NotAfter = a.until.UTC()
	}
	if template.NotAfter.Sub(now) < min(ttl/10, time.Minute) {
		return Leaf{}, fmt.Errorf("what is stored of the authority %s was not read for long: it signs until %s, and now it is %s",
			a.Name(), a.until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if template.NotAfter.After(to) {
		notes = append(notes, "the certificate ends with its issuer, "+to.Format(time.RFC3339))
		template.NotAfter = to
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.issuer, key.public, a.key)
	if err != nil {
		return Leaf{}, fmt.Errorf("sign a certificate: %w", err)
	}
	leaf := Leaf{Chain: [][]byte{encode(certificateBlock, der)}, NotBefore: template.NotBefore.Truncate(time.Second), NotAfter: template.NotAfter.Truncate(time.Second), Notes: notes}
	for _, c := range a.between {
		leaf.Chain = append(leaf.Chain, encode(certificateBlock, c.Raw))
	}
	return leaf, nil
}

// newKey makes a key of P-256, and returns the private one as PKCS #8.
func newKey() (Key, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Key{}, nil, fmt.Errorf("make a key: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Key{}, nil, fmt.Errorf("write a key: %w", err)
	}
	return Key{public: key.Public()}, secret, nil
}
