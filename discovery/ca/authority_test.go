package ca

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"strings"
	"testing"
	"time"
)

// made is a certificate of a test with its key.
type made struct {
	*x509.Certificate
	key crypto.Signer
	pem []byte
}

// authorityOf makes a certificate of an authority, changed by change; parent nil for a root.
func authorityOf(t *testing.T, name string, parent *made, change func(*x509.Certificate)) *made {
	t.Helper()
	return authorityWith(t, name, parent, ecKey(t, elliptic.P256()), change)
}

func authorityWith(t *testing.T, name string, parent *made, key crypto.Signer, change func(*x509.Certificate)) *made {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1000 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	issuer, signer := template, key
	if parent != nil {
		issuer, signer = parent.Certificate, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	check(t, err)
	c, err := x509.ParseCertificate(der)
	check(t, err)
	return &made{c, key, encode(certificateBlock, der)}
}

func (m *made) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(m.key)
	check(t, err)
	return encode("PRIVATE KEY", der)
}

func join(all ...[]byte) []byte { return bytes.Join(all, nil) }

func TestAuthoritiesThatArePluggedIn(t *testing.T) {
	root := authorityOf(t, "root", nil, nil)
	middle := authorityOf(t, "middle", root, nil)
	issuer := authorityOf(t, "issuer", middle, func(c *x509.Certificate) { c.NotAfter = now.Add(10 * time.Hour) })
	old := authorityOf(t, "old", nil, nil)
	bare := authorityOf(t, "bare", nil, withoutIdentifier)
	rsaRoot := authorityWith(t, "rsa", nil, rsaKey(t, 2048), nil)
	for name, c := range map[string]struct {
		files   Files
		between int
	}{
		"a root":              {Files{root.pem, root.keyPEM(t), nil, root.pem}, 0},
		"without identifiers": {Files{bare.pem, bare.keyPEM(t), nil, join(bare.pem, old.pem)}, 0},
		"of RSA":              {Files{rsaRoot.pem, rsaRoot.keyPEM(t), nil, rsaRoot.pem}, 0},
		"below two":           {Files{issuer.pem, issuer.keyPEM(t), join(issuer.pem, middle.pem), root.pem}, 2},
		"with the root":       {Files{issuer.pem, issuer.keyPEM(t), join(issuer.pem, middle.pem, root.pem), root.pem}, 2},
		"without itself":      {Files{issuer.pem, issuer.keyPEM(t), middle.pem, join(old.pem, root.pem)}, 2},
		"directly":            {Files{middle.pem, middle.keyPEM(t), nil, root.pem}, 1},
		"two roots, two IDs":  {Files{root.pem, root.keyPEM(t), nil, join(root.pem, authorityOf(t, "root", nil, nil).pem)}, 0}, // Go makes identifiers
		"a root under a root": {Files{root.pem, root.keyPEM(t), root.pem, join(root.pem, old.pem)}, 0},
	} {
		a, err := Read(c.files, now)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		leaf, err := a.Sign(readKey(t, request(t, ecKey(t, elliptic.P256()))), identity(t, "shop", "web"), 0, terms, now)
		check(t, err)
		if len(leaf.Chain) != 1+c.between {
			t.Errorf("%s: a chain of %d certificates, want %d", name, len(leaf.Chain), 1+c.between)
		}
		if between := issuer.NotAfter; c.between == 2 && (!leaf.NotAfter.Equal(between) || len(leaf.Notes) != 1) {
			t.Errorf("%s: until %s, %v; want until %s, the end of the issuer, and a note", name, leaf.NotAfter, leaf.Notes, between)
		}
		verified := []*x509.Certificate{parse(t, leaf.Chain[0]), root.Certificate}
		if ours := bytes.Contains(c.files.Roots, root.pem); ours && !a.Trusts(verified) || a.Trusts(nil) || a.Trusts([]*x509.Certificate{issuer.Certificate}) {
			t.Errorf("%s: it does not know its own roots", name)
		}
	}
}

func TestAuthoritiesThatAreRefused(t *testing.T) {
	root := authorityOf(t, "root", nil, nil)
	key := root.keyPEM(t)
	bare := authorityOf(t, "root", nil, withoutIdentifier)
	if len(bare.SubjectKeyId) > 0 || !bare.IsCA {
		t.Fatalf("the root has the identifier %x, want none; an authority: %t", bare.SubjectKeyId, bare.IsCA)
	}
	issuer := authorityOf(t, "issuer", root, nil)
	for name, c := range map[string]struct {
		files Files
		want  string
	}{
		"no certificate":    {Files{nil, key, nil, root.pem}, "ca-cert.pem: has no certificate"},
		"half of one":       {Files{root.pem[:200], key, nil, root.pem}, "ca-cert.pem: is half-written: 1 PEM blocks begin, 0 end"},
		"two":               {Files{join(root.pem, root.pem), key, nil, root.pem}, "ca-cert.pem: has 2 certificates"},
		"a key as one":      {Files{key, key, nil, root.pem}, `ca-cert.pem: has a block "PRIVATE KEY"`},
		"no key":            {Files{root.pem, nil, nil, root.pem}, "ca-key.pem: has no key"},
		"half a key":        {Files{root.pem, key[:100], nil, root.pem}, "ca-key.pem: has no key"},
		"a broken key":      {Files{root.pem, encode("PRIVATE KEY", []byte("x")), nil, root.pem}, "ca-key.pem: cannot be read"},
		"an encrypted key":  {Files{root.pem, encode("ENCRYPTED PRIVATE KEY", []byte("x")), nil, root.pem}, "not encrypted"},
		"another key":       {Files{root.pem, issuer.keyPEM(t), nil, root.pem}, "ca-key.pem: is not the key of"},
		"no roots":          {Files{root.pem, key, nil, nil}, "root-cert.pem: has no certificate"},
		"half the roots":    {Files{root.pem, key, nil, join(root.pem, root.pem[:300])}, "root-cert.pem: is half-written"},
		"half the chain":    {Files{root.pem, key, root.pem[:300], root.pem}, "cert-chain.pem: is half-written"},
		"foreign roots":     {Files{root.pem, key, nil, authorityOf(t, "x", nil, nil).pem}, "leads to none of the 1 roots in root-cert.pem"},
		"no authority":      refusedBy(t, func(c *x509.Certificate) { c.IsCA = false }, "is not the certificate of an authority"),
		"may not sign":      refusedBy(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }, "may not sign certificates"),
		"expired":           refusedBy(t, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }, "expired at"),
		"too early":         refusedBy(t, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) }, "is not valid before"),
		"for servers alone": refusedBy(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, "would not be taken"),
		"for another trust domain": refusedBy(t, func(c *x509.Certificate) {
			c.PermittedURIDomains, c.PermittedDNSDomainsCritical = []string{"other.example"}, true
		}, "would not be taken"),
		"a weak key": func() struct {
			files Files
			want  string
		} {
			m := authorityWith(t, "weak", nil, ecKey(t, elliptic.P224()), nil)
			return struct {
				files Files
				want  string
			}{Files{m.pem, m.keyPEM(t), nil, m.pem}, "curve P-224"}
		}(),
		"two roots of one subject, one identifier":      {Files{root.pem, key, nil, join(root.pem, identical(t, root))}, "two roots with different keys have the subject"},
		"two roots of one subject, the new one without": {Files{root.pem, key, nil, join(root.pem, bare.pem)}, "two roots with different keys have the subject"},
		"two roots of one subject, the old one without": {Files{root.pem, key, nil, join(bare.pem, root.pem)}, "two roots with different keys have the subject"},
		"two roots of one subject and no identifiers":   {Files{bare.pem, bare.keyPEM(t), nil, join(bare.pem, authorityOf(t, "root", nil, withoutIdentifier).pem)}, "two roots with different keys have the subject"},
	} {
		if _, err := Read(c.files, now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// identical makes another root with the subject of a root, and its subjectKeyIdentifier.
func identical(t *testing.T, root *made) []byte {
	t.Helper()
	return authorityOf(t, "root", nil, func(c *x509.Certificate) { c.SubjectKeyId = root.SubjectKeyId }).pem
}

// withoutIdentifier makes an authority without a subjectKeyIdentifier. Go gives one to what a template calls an authority, so that an extension
// (basicConstraints CA:TRUE) says it.
func withoutIdentifier(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid = false, false
	c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
}

func refusedBy(t *testing.T, change func(*x509.Certificate), want string) struct {
	files Files
	want  string
} {
	t.Helper()
	root := authorityOf(t, "root", nil, nil)
	issuer := authorityOf(t, "issuer", root, change)
	return struct {
		files Files
		want  string
	}{Files{issuer.pem, issuer.keyPEM(t), nil, root.pem}, want}
}

func TestRootsHaveASubjectAndIdentifiersOfTheirOwn(t *testing.T) {
	one, err := NewRoot("pilotlight root", RootLife, now)
	check(t, err)
	two, err := NewRoot("pilotlight root", RootLife, now)
	check(t, err)
	a, b := parse(t, one.Cert), parse(t, two.Cert)
	if bytes.Equal(a.RawSubject, b.RawSubject) || bytes.Equal(a.SubjectKeyId, b.SubjectKeyId) || len(a.SubjectKeyId) == 0 {
		t.Errorf("subjects %q and %q, identifiers %x and %x, want four that differ", a.Subject, b.Subject, a.SubjectKeyId, b.SubjectKeyId)
	}
	if years := a.NotAfter.Sub(now).Hours() / 24 / 365; years != 10 {
		t.Errorf("a life of %v years, want 10", years)
	}
	if _, err := Read(Files{one.Cert, one.Key, nil, join(two.Roots, one.Roots)}, now); err != nil {
		t.Errorf("two generations side by side: %v", err)
	}
}

// The certificate of a server is for its names, and for its identity.
func TestServers(t *testing.T) {
	a := newAuthority(t)
	pair, err := a.Pair([]string{"discovery.istio-system.svc", "127.0.0.1", "::1"}, identity(t, "istio-system", "pilot"), time.Hour, now)
	check(t, err)
	for _, name := range []string{"discovery.istio-system.svc", "127.0.0.1", "::1"} {
		if err := pair.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if id, err := IdentityOf(pair.Leaf); err != nil || id.ServiceAccount != "pilot" {
		t.Errorf("%v, %v", id, err)
	}
	if !pair.Leaf.NotAfter.Equal(now.Add(time.Hour)) {
		t.Errorf("until %s", pair.Leaf.NotAfter)
	}
}
