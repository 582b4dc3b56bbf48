package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
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

// Sign signs a key for an identity, for ttl; zero or less for the default. A longer time than the most, or than the
// issuer is valid, is cut, and noted. It returns an error only where the authority itself is not valid now.
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

// ReadRequest reads a certificate signing request: one block of PEM. Names, extensions and everything else but the key
// are ignored.
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

// Server makes a key and a certificate for a server: for DNS names and addresses, and for an identity unless that is
// zero.
func (a *Authority) Server(name string, names []string, id Identity, life time.Duration, now time.Time) (certificate, key []byte, err error) {
	public, secret, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if name != "" {
		template.Subject = pkix.Name{CommonName: name}
	}
	if id != (Identity{}) {
		template.URIs = []*url.URL{id.uri()}
	}
	for _, name := range names {
		if address, err := netip.ParseAddr(name); err == nil {
			template.IPAddresses = append(template.IPAddresses, address.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf, err := a.sign(template, public, life, now)
	if err != nil {
		return nil, nil, err
	}
	return bytes.Join(leaf.Chain, nil), encode("PRIVATE KEY", secret), nil
}

// Pair is Server for a listener of TLS.
func (a *Authority) Pair(names []string, id Identity, life time.Duration, now time.Time) (*tls.Certificate, error) {
	certificate, key, err := a.Server("", names, id, life, now)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read a certificate that was made: %w", err)
	}
	return &pair, nil
}

const (
	// RootLife is how long a root is valid that is made here.
	RootLife = 10 * 365 * 24 * time.Hour

	// RootName begins the subject of a root that is made here.
	RootName = "pilotlight root"

	// Early is how long before now a certificate is valid, for clocks that differ.
	Early = time.Hour
)

// NewRoot makes a root with a key of P-256. Its subject is name and a generation of its own: two roots of one subject
// are confused by verifiers that look for an issuer by its name.
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
