package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var terms = Terms{Default: 24 * time.Hour, Most: 48 * time.Hour}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ecKey makes a key of a curve.
func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	check(t, err)
	return key
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	check(t, err)
	return key
}

// request makes a CSR with much that is not asked for.
func request(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	foreign, _ := url.Parse("spiffe://cluster.local/ns/kube-system/sa/admin")
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, DNSNames: []string{"bank.example"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}, EmailAddresses: []string{"root@bank.example"}, URIs: []*url.URL{foreign},
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}}, // CA:TRUE
	}, key)
	check(t, err)
	return encode("CERTIFICATE REQUEST", der)
}

func readKey(t testing.TB, text []byte) Key {
	t.Helper()
	key, err := ReadRequest(text)
	check(t, err)
	return key
}

func newAuthority(t testing.TB) *Authority {
	t.Helper()
	files, err := NewRoot("root", RootLife, now)
	check(t, err)
	a, err := Read(files, now)
	check(t, err)
	return a
}

func parse(t testing.TB, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	return c
}

func identity(t testing.TB, namespace, account string) Identity {
	t.Helper()
	id, err := NewIdentity("cluster.local", namespace, account)
	check(t, err)
	return id
}

func TestALeafHasTheIdentityAndNothingElse(t *testing.T) {
	a := newAuthority(t)
	for name, key := range map[string]crypto.Signer{"P-256": ecKey(t, elliptic.P256()), "P-384": ecKey(t, elliptic.P384()), "RSA 2048": rsaKey(t, 2048)} {
		leaf, err := a.Sign(readKey(t, request(t, key)), identity(t, "shop", "web"), 0, terms, now)
		check(t, err)
		c := parse(t, leaf.Chain[0])
		if len(c.URIs) != 1 || c.URIs[0].String() != "spiffe://cluster.local/ns/shop/sa/web" || len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses) > 0 {
			t.Errorf("%s: names %v %v %v %v, want the one URI", name, c.URIs, c.DNSNames, c.IPAddresses, c.EmailAddresses)
		}
		if c.Subject.String() != "" || c.IsCA || len(leaf.Chain) != 1 || len(leaf.Notes) > 0 {
			t.Errorf("%s: subject %q, CA %v, %d certificates, notes %v", name, c.Subject, c.IsCA, len(leaf.Chain), leaf.Notes)
		}
		for _, e := range c.Extensions {
			if e.Id.String() == "2.5.29.17" && !e.Critical {
				t.Errorf("%s: the URI is not critical", name)
			}
		}
		if !c.NotBefore.Equal(now.Add(-time.Hour)) || !c.NotAfter.Equal(now.Add(24*time.Hour)) || !leaf.NotAfter.Equal(c.NotAfter) {
			t.Errorf("%s: valid from %s to %s", name, c.NotBefore, c.NotAfter)
		}
		if _, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if id, err := IdentityOf(c); err != nil || id != identity(t, "shop", "web") {
			t.Errorf("%s: read as %v, %v", name, id, err)
		}
		if len(c.AuthorityKeyId) == 0 {
			t.Errorf("%s: it has no authorityKeyIdentifier", name)
		}
	}
}

func TestTheLifeOfALeaf(t *testing.T) {
	a := newAuthority(t)
	key := readKey(t, request(t, ecKey(t, elliptic.P256())))
	end := a.Ends()
	for name, c := range map[string]struct {
		ttl, want time.Duration
		at        time.Time
		notes     int
		from      time.Time
	}{
		"the default":            {0, 24 * time.Hour, now.Add(time.Hour), 0, now},
		"a negative one":         {-time.Hour, 24 * time.Hour, now.Add(time.Hour), 0, now},
		"what is asked":          {time.Minute, time.Minute, now.Add(time.Hour), 0, now},
		"more than the most":     {100 * time.Hour, 48 * time.Hour, now.Add(time.Hour), 1, now},
		"an overflowing one":     {1<<63 - 1, 48 * time.Hour, now.Add(time.Hour), 1, now},
		"beyond the issuer":      {0, time.Hour, end.Add(-time.Hour), 1, end.Add(-2 * time.Hour)},
		"begins with the issuer": {time.Minute, time.Minute, now.Add(-time.Minute), 0, now.Add(-time.Hour)},
	} {
		leaf, err := a.Sign(key, identity(t, "shop", "web"), c.ttl, terms, c.at)
		if err != nil || !leaf.NotAfter.Equal(c.at.Add(c.want)) || len(leaf.Notes) != c.notes || !leaf.NotBefore.Equal(c.from) {
			t.Errorf("%s: from %s to %s, notes %v, %v; want from %s, %s after %s, %d notes", name, leaf.NotBefore, leaf.NotAfter, leaf.Notes, err, c.from, c.want, c.at, c.notes)
		}
	}
	for _, at := range []time.Time{end, end.Add(time.Hour), now.Add(-2 * time.Hour)} {
		if _, err := a.Sign(key, identity(t, "shop", "web"), 0, terms, at); err == nil || !strings.Contains(err.Error(), "is valid from") {
			t.Errorf("signed at %s, %v: the authority is not valid then", at, err)
		}
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	p256 := ecKey(t, elliptic.P256())
	good := request(t, p256)
	block, _ := pem.Decode(good)
	broken := bytes.Clone(block.Bytes)
	broken[len(broken)-5] ^= 1
	small := rsaKey(t, 2048).PublicKey
	small.E = 3
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":          {nil, "is no PEM"},
		"no PEM":           {[]byte("hello"), "is no PEM"},
		"a certificate":    {encode("CERTIFICATE", block.Bytes), `is a block "CERTIFICATE"`},
		"two":              {append(bytes.Clone(good), good...), "something follows"},
		"half":             {good[:len(good)/2], "is no PEM"},
		"not DER":          {encode("CERTIFICATE REQUEST", []byte("hello")), "parse the request"},
		"another's":        {encode("CERTIFICATE REQUEST", broken), "is not signed with its key"},
		"P-224":            {request(t, ecKey(t, elliptic.P224())), "of curve P-224"},
		"P-521":            {request(t, ecKey(t, elliptic.P521())), "of curve P-521"},
		"Ed25519":          {request(t, edKey), "is a ed25519.PublicKey"},
		"RSA 1024":         {requestWithPublic(t, &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 1023, 1), E: 65537}), "RSA of 1024 bits"},
		"RSA exponent 3":   {requestWithPublic(t, &small), "exponent 3"},
		"RSA 16384":        {requestWithPublic(t, &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 16383, 1), E: 65537}), "RSA of 16384 bits"},
		"a megabyte":       {append(bytes.Clone(good), make([]byte, 1<<20)...), "at most 32768"},
		"an encrypted key": {[]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"), "ENCRYPTED PRIVATE KEY"},
	} {
		if _, err := ReadRequest(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// requestWithPublic makes a request of a key that nobody has, so its signature is wrong.
func requestWithPublic(t *testing.T, public *rsa.PublicKey) []byte {
	t.Helper()
	spki, err := x509.MarshalPKIXPublicKey(public)
	check(t, err)
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue}
	der, err := asn1.Marshal(struct {
		Of struct {
			Version    int
			Subject    asn1.RawValue
			Key        asn1.RawValue
			Attributes asn1.RawValue
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{struct {
		Version    int
		Subject    asn1.RawValue
		Key        asn1.RawValue
		Attributes asn1.RawValue
	}{0, asn1.RawValue{FullBytes: []byte{0x30, 0}}, asn1.RawValue{FullBytes: spki}, asn1.RawValue{FullBytes: []byte{0xa0, 0}}}, algorithm, asn1.BitString{Bytes: make([]byte, 256), BitLength: 2048}})
	check(t, err)
	return encode("CERTIFICATE REQUEST", der)
}

func TestIdentitiesAreOfKubernetesNames(t *testing.T) {
	for _, c := range []struct {
		domain, namespace, account string
		good                       bool
	}{
		{"cluster.local", "shop", "web", true},
		{"cluster.local", "shop", "web.v1", true},
		{"cluster.local", strings.Repeat("a", 63), strings.Repeat("a", 253), true},
		{"cluster.local", "shop/../kube-system", "admin", false},
		{"cluster.local", "shop", "web/sa/admin", false},
		{"cluster.local", "..", "admin", false},
		{"cluster.local", ".", "admin", false},
		{"cluster.local", "", "admin", false},
		{"cluster.local", "shop", "", false},
		{"cluster.local", "shop", ".", false},
		{"cluster.local", "shop", "a..b", false},
		{"cluster.local", "shop.a", "web", false},
		{"cluster.local", "Shop", "web", false},
		{"cluster.local", "shop", "web_1", false},
		{"cluster.local", "-shop", "web", false},
		{"cluster.local", "shop-", "web", false},
		{"cluster.local", "shop", "web%2f", false},
		{"cluster.local", "shop", "web?a", false},
		{"cluster.local", "shop", "wéb", false},
		{"cluster.local", strings.Repeat("a", 64), "web", false},
		{"cluster.local", "shop", strings.Repeat("a", 254), false},
		{"", "shop", "web", false},
		{"Cluster.local", "shop", "web", false},
		{"cluster.local/ns/x", "shop", "web", false},
		{"a@b", "shop", "web", false},
	} {
		id, err := NewIdentity(c.domain, c.namespace, c.account)
		if (err == nil) != c.good {
			t.Errorf("%q %q %q: %v, %v", c.domain, c.namespace, c.account, id, err)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range [][3]string{{"cluster.local", "shop", "web"}, {"a", "shop/../x", "admin"}, {"a", "a", "b.c"}, {"a", "b\x00", "c"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, domain, namespace, account string) {
		id, err := NewIdentity(domain, namespace, account)
		if err != nil {
			return
		}
		parts := strings.Split(id.String(), "/")
		if len(parts) != 7 || parts[2] != domain || parts[4] != namespace || parts[6] != account || id.uri().String() != id.String() {
			t.Errorf("%q %q %q became %q, in a certificate %q", domain, namespace, account, id, id.uri())
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add(request(f, ecKey(f, elliptic.P256())))
	f.Add(request(f, rsaKey(f, 2048)))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----"))
	a := newAuthority(f)
	id := identity(f, "shop", "web")
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := ReadRequest(text)
		if err != nil {
			return
		}
		if err := checkRequested(key.public); err != nil {
			t.Errorf("%q is taken: %v", text, err)
		}
		leaf, err := a.Sign(key, id, 0, terms, now)
		check(t, err)
		c := parse(t, leaf.Chain[0])
		if got, err := IdentityOf(c); err != nil || got != id || c.Subject.String() != "" || len(c.DNSNames) > 0 {
			t.Errorf("%q became %v, %v, %q, %v", text, got, err, c.Subject, c.DNSNames)
		}
	})
}

// An authority that has not read for long what is stored of it signs shorter leaves, and in the end none.
func TestUntil(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f, err := NewRoot(RootName, RootLife, begin)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Read(f, begin)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	terms := Terms{Default: time.Hour, Most: time.Hour}
	for left, want := range map[time.Duration]time.Duration{2 * time.Hour: time.Hour, time.Hour / 2: time.Hour / 2, time.Minute: time.Minute, time.Minute - time.Second: 0, -time.Hour: 0} {
		leaf, err := a.Until(begin.Add(left)).Sign(key, Identity{"cluster.local", "shop", "web"}, 0, terms, begin)
		switch {
		case want == 0 && (err == nil || !strings.Contains(err.Error(), "was not read for long")):
			t.Errorf("%s before the end: %v", left, err)
		case want > 0 && (err != nil || !leaf.NotAfter.Equal(begin.Add(want)) || (len(leaf.Notes) > 0) != (want < time.Hour)):
			t.Errorf("%s before the end: until %s, %q, %v; want %s", left, leaf.NotAfter, leaf.Notes, err, want)
		}
	}
}
