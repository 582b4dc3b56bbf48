package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Files are the contents of an authority's files, PEM, under Istio's names.
type Files struct {
	Cert  []byte `json:"cert"`            // ca-cert.pem: the issuer
	Key   []byte `json:"key"`             // ca-key.pem
	Chain []byte `json:"chain,omitempty"` // cert-chain.pem: the certificates between the issuer and a root; nil for none
	Roots []byte `json:"roots"`           // root-cert.pem
}

// Names of the files.
const (
	CertFile  = "ca-cert.pem"
	KeyFile   = "ca-key.pem"
	ChainFile = "cert-chain.pem"
	RootsFile = "root-cert.pem"
)

// Authority signs certificates. It is not changed, and may be used by several goroutines.
type Authority struct {
	issuer   *x509.Certificate
	key      crypto.Signer
	path     []*x509.Certificate // from the issuer to a root
	between  []*x509.Certificate // the same without the root; none where the issuer is one
	roots    []*x509.Certificate
	pool     *x509.CertPool // of the roots
	rootsPEM []byte
	until    time.Time // of each leaf; zero for no end but the issuer's
}

// Until returns the authority for leaves that end by a time at the latest.
func (a *Authority) Until(end time.Time) *Authority {
	out := *a
	out.until = end
	return &out
}

// Roots returns all roots to trust, PEM.
func (a *Authority) Roots() []byte { return a.rootsPEM }

// Pool returns the roots for a verifier.
func (a *Authority) Pool() *x509.CertPool { return a.pool }

// Trusts reports whether a chain that was verified ends at a root of this authority.
func (a *Authority) Trusts(verified []*x509.Certificate) bool {
	if len(verified) == 0 {
		return false
	}
	for _, root := range a.roots {
		if root.Equal(verified[len(verified)-1]) {
			return true
		}
	}
	return false
}

// Ends returns when the first certificate of the issuer's path ends; no leaf outlives it.
func (a *Authority) Ends() time.Time {
	_, ends := a.limits()
	return ends
}

// Name returns the subject of the issuer.
func (a *Authority) Name() string { return a.issuer.Subject.String() }

// Same reports whether two authorities sign, and trust, the same.
func (a *Authority) Same(other *Authority) bool {
	return a.issuer.Equal(other.issuer) && bytes.Equal(a.rootsPEM, other.rootsPEM) && slices.EqualFunc(a.path, other.path, (*x509.Certificate).Equal)
}

// Root returns the SHA-256 of the root to which leaves lead.
func (a *Authority) Root() string {
	sum := sha256.Sum256(a.path[len(a.path)-1].Raw)
	return hex.EncodeToString(sum[:])
}

// limits returns when the issuer and all above it are valid.
func (a *Authority) limits() (from, to time.Time) {
	from, to = a.issuer.NotBefore, a.issuer.NotAfter
	for _, c := range a.path {
		if c.NotBefore.After(from) {
			from = c.NotBefore
		}
		if c.NotAfter.Before(to) {
			to = c.NotAfter
		}
	}
	return from, to
}

const certificateBlock = "CERTIFICATE"

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Read reads an authority, and judges it: see judge. Errors name the file at fault.
func Read(f Files, now time.Time) (*Authority, error) {
	issuers, err := certificatesOf(CertFile, f.Cert)
	if err != nil {
		return nil, err
	}
	if len(issuers) != 1 {
		return nil, fmt.Errorf("%s: has %d certificates, want the issuer alone; those between it and a root go to %s", CertFile, len(issuers), ChainFile)
	}
	key, err := keyOf(f.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", KeyFile, err)
	}
	var chain []*x509.Certificate
	if len(bytes.TrimSpace(f.Chain)) > 0 {
		if chain, err = certificatesOf(ChainFile, f.Chain); err != nil {
			return nil, err
		}
	}
	roots, err := certificatesOf(RootsFile, f.Roots)
	if err != nil {
		return nil, err
	}
	a := &Authority{issuer: issuers[0], key: key, roots: roots, pool: x509.NewCertPool()}
	for _, root := range roots {
		a.pool.AddCert(root)
		a.rootsPEM = append(a.rootsPEM, encode(certificateBlock, root.Raw)...)
	}
	if err := a.judge(chain, now); err != nil {
		return nil, err
	}
	return a, nil
}

// certificatesOf reads a file of certificates, at least one.
func certificatesOf(name string, text []byte) (out []*x509.Certificate, err error) {
	begins, ends := bytes.Count(text, []byte("-----BEGIN ")), bytes.Count(text, []byte("-----END "))
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			return nil, fmt.Errorf("%s: has a block %q, want certificates alone", name, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: parse certificate %d: %w", name, len(out)+1, err)
		}
		out = append(out, c)
	}
	switch {
	case begins != len(out) || ends != len(out):
		return nil, fmt.Errorf("%s: is half-written: %d PEM blocks begin, %d end, %d are whole", name, begins, ends, len(out))
	case len(out) == 0:
		return nil, fmt.Errorf("%s: has no certificate, want PEM", name)
	}
	return out, nil
}

// keyOf reads the issuer's key. An error does not contain any part of it.
func keyOf(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "EC PARAMETERS": // openssl writes them before a key
			continue
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			return nil, fmt.Errorf("has a block %q, want PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY, not encrypted", block.Type)
		}
		if err != nil {
			return nil, errors.New("cannot be read: it is broken, or of a kind that is not known here")
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, fmt.Errorf("is a key that does not sign: %T", key)
	}
	return nil, errors.New("has no key, want PEM")
}

// judge completes the path to a root, and refuses an authority whose leaves would not be taken.
func (a *Authority) judge(chain []*x509.Certificate, now time.Time) error {
	c := a.issuer
	public, ok := a.key.Public().(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case !c.IsCA || !c.BasicConstraintsValid:
		return fmt.Errorf("%s: %q is not the certificate of an authority (basicConstraints CA:TRUE)", CertFile, c.Subject)
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return fmt.Errorf("%s: %q may not sign certificates (keyUsage has no keyCertSign)", CertFile, c.Subject)
	case !ok || !public.Equal(c.PublicKey):
		return fmt.Errorf("%s: is not the key of %q in %s", KeyFile, c.Subject, CertFile)
	}
	if err := judgeRoots(a.roots); err != nil {
		return err
	}
	for _, of := range []struct {
		name string
		all  []*x509.Certificate
	}{{CertFile, []*x509.Certificate{c}}, {ChainFile, chain}} {
		for _, c := range of.all {
			if err := judgeOne(c, now); err != nil {
				return fmt.Errorf("%s: %w", of.name, err)
			}
		}
	}
	if err := a.join(chain, now); err != nil {
		return err
	}
	return a.try(now)
}

// judgeOne refuses a certificate of the path that is not valid now, or that is weak.
func judgeOne(c *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(c.NotBefore):
		return fmt.Errorf("%q is not valid before %s", c.Subject, c.NotBefore.Format(time.RFC3339))
	case now.After(c.NotAfter):
		return fmt.Errorf("%q expired at %s", c.Subject, c.NotAfter.Format(time.RFC3339))
	}
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < leastRSA || key.E < leastPublic {
			return fmt.Errorf("%q has an RSA key of %d bits with the exponent %d, want %d bits and %d at least", c.Subject, key.N.BitLen(), key.E, leastRSA, leastPublic)
		}
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize < 256 {
			return fmt.Errorf("%q has a key of curve %s, want P-256, P-384 or P-521", c.Subject, key.Curve.Params().Name)
		}
	default:
		return fmt.Errorf("%q has a key of %T, want ECDSA or RSA: Envoy takes no other", c.Subject, key)
	}
	if slices.Contains([]x509.SignatureAlgorithm{x509.MD5WithRSA, x509.SHA1WithRSA, x509.ECDSAWithSHA1}, c.SignatureAlgorithm) {
		return fmt.Errorf("%q is signed with %s, which is weak", c.Subject, c.SignatureAlgorithm)
	}
	return nil
}

// judgeRoots refuses two roots of one subject and different keys that verifiers cannot tell apart. Envoy takes the
// first by its name, and then refuses every leaf of the second, though both are trusted.
func judgeRoots(roots []*x509.Certificate) error {
	for i, a := range roots {
		if !a.IsCA {
			return fmt.Errorf("%s: %q is not the certificate of an authority (basicConstraints CA:TRUE)", RootsFile, a.Subject)
		}
		for _, b := range roots[:i] {
			same := bytes.Equal(a.RawSubject, b.RawSubject) && !bytes.Equal(a.RawSubjectPublicKeyInfo, b.RawSubjectPublicKeyInfo)
			if same && (len(a.SubjectKeyId) == 0 || len(b.SubjectKeyId) == 0 || bytes.Equal(a.SubjectKeyId, b.SubjectKeyId)) {
				return fmt.Errorf("%s: two roots with different keys have the subject %q, and no subjectKeyIdentifier of their own: "+
					"Envoy would refuse every leaf of one of them; make the new root with another subject", RootsFile, a.Subject)
			}
		}
	}
	return nil
}

// join finds the path from the issuer to a root.
func (a *Authority) join(chain []*x509.Certificate, now time.Time) error {
	between := x509.NewCertPool()
	for _, c := range chain {
		between.AddCert(c)
	}
	paths, err := a.issuer.Verify(x509.VerifyOptions{Roots: a.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return fmt.Errorf("%s: %q leads to none of the %d roots in %s: %w", CertFile, a.issuer.Subject, len(a.roots), RootsFile, err)
	}
	path := slices.MinFunc(paths, func(x, y []*x509.Certificate) int { return len(x) - len(y) })
	a.between, a.path = path[:len(path)-1], path
	return nil
}

// try signs a trial leaf and verifies it: name constraints, path lengths and usages above it are for the verifier to
// know.
func (a *Authority) try(now time.Time) error {
	key, _, err := newKey()
	if err != nil {
		return err
	}
	leaf, err := a.Sign(key, Identity{"cluster.local", "trial", "trial"}, time.Minute, Terms{Default: time.Minute, Most: time.Minute}, now)
	if err != nil {
		return fmt.Errorf("%s: %w", CertFile, err)
	}
	block, _ := pem.Decode(leaf.Chain[0])
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("%s: parse a trial leaf: %w", CertFile, err)
	}
	between := x509.NewCertPool()
	for _, c := range a.between {
		between.AddCert(c)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: a.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return fmt.Errorf("%s: a leaf of %q would not be taken: %w", CertFile, a.issuer.Subject, err)
		}
	}
	return nil
}
