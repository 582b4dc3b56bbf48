package cert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
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
