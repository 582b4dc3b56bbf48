package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

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

// judgeRoots refuses two roots of one subject and different keys that verifiers cannot tell apart. Envoy takes the first
// by its name, and then refuses every leaf of the second, though both are trusted.
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

// try signs a trial leaf and verifies it: name constraints, path lengths and usages above it are for the verifier to know.
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
