package cert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Info describes the leaf certificate of a chain.
type Info struct {
	Serial    string    `json:"Serial"` // in the form of Envoy's /certs: lower-case hex of whole bytes, "03e9"
	NotBefore time.Time `json:"NotBefore"`
	NotAfter  time.Time `json:"NotAfter"`
	Ends      time.Time `json:"Ends"` // NotAfter, or that of an issuer in the chain if it is earlier
	DNSNames  []string  `json:"DNSNames"`
	URIs      []string  `json:"URIs"`
}

// Part is a file of a set.
type Part int

// The files of a set.
const (
	Chain Part = iota
	Key
	Roots
)

func (p Part) String() string {
	return [...]string{"certificate chain", "private key", "root certificates"}[p]
}

// Fault is a fault of one file.
type Fault struct {
	Part Part
	Err  error
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %v", f.Part, f.Err) }
func (f *Fault) Unwrap() error { return f.Err }

// Check returns nil if Envoy could use a set at a time: the key belongs to the leaf, the leaf is valid, and a path
// leads to one of the roots. A nil file means no file: without roots the path is not checked, and roots may be alone.
// The error is a *Fault; its text does not change with the time.
func Check(chain, key, roots []byte, now time.Time) (Info, error) {
	var anchors []*x509.Certificate
	foreign := 0
	if roots != nil {
		var err error
		if anchors, foreign, err = parseRoots(roots); err != nil {
			return Info{}, &Fault{Roots, err}
		}
	}
	if chain == nil && key == nil {
		return Info{}, nil
	}
	certificates, err := parseCertificates(chain)
	if err != nil {
		return Info{}, &Fault{Chain, err}
	}
	leaf := certificates[0]
	info := infoOf(certificates)
	if err := checkKey(leaf, key); err != nil {
		return info, &Fault{Key, err}
	}
	if err := checkStrength(leaf); err != nil {
		return info, &Fault{Chain, err}
	}
	if err := checkTime(leaf, now); err != nil {
		return info, &Fault{Chain, err}
	}
	if roots == nil {
		return info, nil
	}
	if err := checkPath(certificates, anchors, foreign, now); err != nil {
		return info, &Fault{Chain, err}
	}
	return info, nil
}

func infoOf(chain []*x509.Certificate) Info {
	leaf := chain[0]
	info := Info{
		Serial:    Serial(leaf),
		NotBefore: leaf.NotBefore,
		NotAfter:  leaf.NotAfter,
		DNSNames:  leaf.DNSNames,
	}
	for _, c := range chain {
		if info.Ends.IsZero() || c.NotAfter.Before(info.Ends) {
			info.Ends = c.NotAfter
		}
	}
	for _, uri := range leaf.URIs {
		info.URIs = append(info.URIs, uri.String())
	}
	return info
}

func checkKey(leaf *x509.Certificate, data []byte) error {
	key, err := parseKey(data)
	if err != nil {
		return err
	}
	public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(key.Public()) {
		return fmt.Errorf("is not the key of the leaf certificate %q", name(leaf))
	}
	return nil
}

// checkStrength refuses the keys that Envoy refuses (seen on 1.40).
func checkStrength(leaf *x509.Certificate) error {
	switch key := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < 2048 {
			return fmt.Errorf("%q has an RSA key of %d bits, and Envoy takes 2048 and more", leaf.Subject, bits)
		}
	case *ecdsa.PublicKey:
		if curve := key.Curve.Params(); curve.BitSize < 256 {
			return fmt.Errorf("%q has a key of curve %s, and Envoy takes P-256, P-384 and P-521", leaf.Subject, curve.Name)
		}
	}
	return nil
}

func checkTime(c *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(c.NotBefore):
		return fmt.Errorf("%q is not valid before %s", name(c), c.NotBefore.Format(time.RFC3339))
	case now.After(c.NotAfter):
		return fmt.Errorf("%q expired at %s", name(c), c.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// name is the subject of a certificate, or its first URI where it has none, as that of a SPIFFE identity.
func name(c *x509.Certificate) string {
	if subject := c.Subject.String(); subject != "" || len(c.URIs) == 0 {
		return subject
	}
	return c.URIs[0].String()
}

// checkPath checks that a path leads to one of the roots. With foreign roots, which Go cannot parse, a failure does not
// count: Envoy decides.
func checkPath(chain, roots []*x509.Certificate, foreign int, now time.Time) error {
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         pool(roots),
		Intermediates: pool(chain[1:]),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err == nil {
		return nil
	}
	// The verifier's own text has the current time in it, and hides which certificate is out of date.
	for _, issuer := range slices.Concat(chain[1:], roots) {
		issued := func(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, issuer.RawSubject) }
		if err := checkTime(issuer, now); err != nil && slices.ContainsFunc(chain, issued) {
			return fmt.Errorf("leads to no valid root: %w", err)
		}
	}
	if errors.As(err, &x509.UnknownAuthorityError{}) {
		if foreign > 0 {
			return nil
		}
		return fmt.Errorf("leads to none of the %d roots: the issuer of its end is %q", len(roots), chain[len(chain)-1].Issuer)
	}
	return fmt.Errorf("leads to none of the %d roots: %w", len(roots), err)
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}

// Serial returns the serial of a certificate in the form of Envoy's /certs.
func Serial(leaf *x509.Certificate) string { return hex.EncodeToString(leaf.SerialNumber.Bytes()) }
