package cert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	root, other := issue(t, "root", nil, ecKey(t), nil), issue(t, "other", nil, rsaKey(t), nil)
	middle := issue(t, "middle", &root, ecKey(t), nil)
	leafKey := ecKey(t)
	leaf := issue(t, "leaf", &root, leafKey, nil)
	deep := issue(t, "deep", &middle, leafKey, nil)
	rsaLeaf, edLeaf := issue(t, "rsa", &root, rsaKey(t), nil), issue(t, "ed", &root, edKey(t), nil)
	key := pkcs8(t, leafKey)
	until := func(d time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotAfter = now.Add(d) }
	}
	expiredRoot := issue(t, "old root", nil, ecKey(t), until(-time.Minute))
	ofExpiredRoot := issue(t, "leaf", &expiredRoot, leafKey, nil)
	expiredMiddle := issue(t, "old middle", &root, ecKey(t), until(-time.Minute))
	ofExpiredMiddle := issue(t, "leaf", &expiredMiddle, leafKey, nil)
	expired := issue(t, "leaf", &root, leafKey, until(-time.Second))
	nameless := issue(t, "leaf", &root, leafKey, func(c *x509.Certificate) { c.Subject, c.NotAfter = pkix.Name{}, now.Add(-time.Second) })
	early := issue(t, "leaf", &root, leafKey, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) })
	noCA := issue(t, "no ca", &root, ecKey(t), func(c *x509.Certificate) { c.IsCA = false })
	ofNoCA := issue(t, "leaf", &noCA, leafKey, nil)
	weak := func(key crypto.Signer, err error) issued {
		if err != nil {
			t.Fatal(err)
		}
		return issue(t, "weak", nil, key, nil)
	}
	t.Setenv("GODEBUG", "rsa1024min=0")
	weakRSA := weak(rsa.GenerateKey(rand.Reader, 1024))
	weakEC := weak(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))
	p256 := []byte{0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7}
	foreign := block("CERTIFICATE", bytes.Replace(root.Raw, p256, []byte{0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 9}, 1), nil)
	negative := block("CERTIFICATE", bytes.Replace(root.Raw, []byte{2, 2, 3, 0xe9}, []byte{2, 2, 0x83, 0xe9}, 1), nil)
	const remark = "subject=CN = leaf\n"
	half := leaf.pem()[:len(leaf.pem())/2]

	for _, test := range []struct {
		name, chain, key, roots string
		want                    string // the fault, empty for none
	}{
		{"a leaf of the root", leaf.pem(), key, root.pem(), ""},
		{"text around blocks", remark + leaf.pem() + remark, remark + key, remark + root.pem() + remark, ""},
		{"an intermediate in the chain", deep.pem() + middle.pem(), key, root.pem(), ""},
		{"a bundle of roots", leaf.pem(), key, other.pem() + root.pem(), ""},
		{"an expired root beside a good one", leaf.pem(), key, expiredRoot.pem() + root.pem(), ""},
		{"no roots asked for", leaf.pem(), key, "none", ""},
		{"roots alone", "none", "none", root.pem(), ""},
		{"SEC 1", leaf.pem(), sec1(t, leafKey), root.pem(), ""},
		{"SEC 1 after its parameters", leaf.pem(), block("EC PARAMETERS", []byte{6, 8, 42}, nil) + sec1(t, leafKey), root.pem(), ""},
		{"RSA, PKCS 8", rsaLeaf.pem(), pkcs8(t, rsaLeaf.key), root.pem(), ""},
		{"RSA, PKCS 1", rsaLeaf.pem(), pkcs1(rsaLeaf), root.pem(), ""},
		{"Ed25519", edLeaf.pem(), pkcs8(t, edLeaf.key), root.pem(), ""},

		// As in Envoy: a block that Envoy skips or accepts is no fault.
		{"a CRL beside the roots", leaf.pem(), key, root.pem() + block("X509 CRL", []byte{0x30, 0}, nil), ""},
		{"a trusted certificate", leaf.pem(), key, block("TRUSTED CERTIFICATE", append(root.Raw[:len(root.Raw):len(root.Raw)], 0x30, 0), nil), ""},
		{"a root of another curve beside it", leaf.pem(), key, foreign + root.pem(), ""},
		{"a root with a negative serial, of which Go knows nothing", leaf.pem(), key, negative, ""},
		{"another kind of root, and an expired leaf", expired.pem(), key, foreign, "expired at"},
		{"a chain that holds its key", leaf.pem() + key, key, root.pem(), ""},
		{"a key beside its certificate", leaf.pem(), leaf.pem() + key, root.pem(), ""},
		{"a root of no sense", leaf.pem(), key, root.pem() + block("CERTIFICATE", []byte{0x30, 0}, nil), "root certificates: parse certificate 2"},
		{"RSA of 1024 bits", weakRSA.pem(), pkcs8(t, weakRSA.key), "none", `"CN=weak" has an RSA key of 1024 bits, and Envoy takes 2048 and more`},
		{"P-224", weakEC.pem(), pkcs8(t, weakEC.key), "none", `"CN=weak" has a key of curve P-224`},

		{"another key", leaf.pem(), pkcs8(t, ecKey(t)), root.pem(), `private key: is not the key of the leaf certificate "CN=leaf"`},
		{"a key of another kind", leaf.pem(), pkcs1(rsaLeaf), root.pem(), "private key: is not the key of"},
		{"the chain in the wrong order", middle.pem() + deep.pem(), key, root.pem(), `private key: is not the key of the leaf certificate "CN=middle"`},
		{"an encrypted key", leaf.pem(), block("ENCRYPTED PRIVATE KEY", []byte{1}, nil), root.pem(), "private key: is encrypted"},
		{
			"a key encrypted the old way", leaf.pem(),
			block("RSA PRIVATE KEY", []byte{1}, map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}),
			root.pem(), "private key: is encrypted",
		},
		{"two keys", leaf.pem(), key + key, root.pem(), "private key: has 2 PEM blocks, want one key"},
		{"a key of no known kind", leaf.pem(), block("DSA PRIVATE KEY", []byte{1}, nil), root.pem(), "private key: parse DSA PRIVATE KEY: unknown"},
		{"a key of no sense", leaf.pem(), block("PRIVATE KEY", []byte{1}, nil), root.pem(), "private key: parse PRIVATE KEY: "},
		{"no key", leaf.pem(), "none", root.pem(), "private key: is empty"},
		{"no chain", "none", key, root.pem(), "certificate chain: is empty"},
		{"a key where the chain should be", key, key, root.pem(), `certificate chain: PEM block 1 is "PRIVATE KEY", want CERTIFICATE`},
		{"a certificate of no sense", block("CERTIFICATE", []byte{1}, nil), key, root.pem(), "certificate chain: parse certificate 1: "},

		{"an empty chain", " \n", key, root.pem(), "certificate chain: is empty"},
		{"an empty key", leaf.pem(), "", root.pem(), "private key: is empty"},
		{"empty roots", leaf.pem(), key, "", "root certificates: is empty"},
		{"no PEM", "hello", key, root.pem(), "certificate chain: has no PEM block"},
		{"half a chain", half, key, root.pem(), "certificate chain: is half-written: 1 PEM blocks begin, 0 end, 0 are whole"},
		{"half an intermediate", deep.pem() + middle.pem()[:99], key, root.pem(), "certificate chain: is half-written: 2 PEM blocks begin, 1 end, 1 are whole"},
		{"half a block, then a whole one", half + "\n" + leaf.pem(), key, root.pem(), "certificate chain: is half-written"},
		{"half a key", leaf.pem(), key[:len(key)-9], root.pem(), "private key: is half-written"},
		{"half of the roots", leaf.pem(), key, root.pem() + other.pem()[:500], "root certificates: is half-written"},
		{"the tail of a longer predecessor", leaf.pem() + half[40:] + "\n-----END CERTIFICATE-----\n", key, root.pem(), "certificate chain: is half-written"},
		{"zeros of a crashed disk", leaf.pem() + "\x00\x00", key, root.pem(), "certificate chain: is half-written: zero bytes after 1 PEM blocks"},

		{"expired", expired.pem(), key, root.pem(), `certificate chain: "CN=leaf" expired at 1999-12-31T23:59:59Z`},
		{"expired, an identity without a subject", nameless.pem(), key, root.pem(), `certificate chain: "spiffe://cluster.local/ns/default/sa/leaf" expired at`},
		{"expired, no roots asked for", expired.pem(), key, "none", "certificate chain: \"CN=leaf\" expired at"},
		{"not yet valid", early.pem(), key, root.pem(), `certificate chain: "CN=leaf" is not valid before 2000-01-01T00:00:01Z`},
		{"another root", leaf.pem(), key, other.pem(), `certificate chain: leads to none of the 1 roots: the issuer of its end is "CN=root"`},
		{"the intermediate is missing", deep.pem(), key, root.pem(), `leads to none of the 1 roots: the issuer of its end is "CN=middle"`},
		{"the root has expired", ofExpiredRoot.pem(), key, expiredRoot.pem(), `leads to no valid root: "CN=old root" expired at`},
		{"the intermediate has expired", ofExpiredMiddle.pem() + expiredMiddle.pem(), key, root.pem(), `leads to no valid root: "CN=old middle" expired at`},
		{"the intermediate may not sign", ofNoCA.pem() + noCA.pem(), key, root.pem(), "leads to none of the 1 roots"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Check(file(test.chain), file(test.key), file(test.roots), now)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Fatalf("Check: got %v, want %q", err, test.want)
			}
			if _, later := Check(file(test.chain), file(test.key), file(test.roots), now.Add(time.Minute)); text(later) != text(err) &&
				!strings.Contains(test.want, "not valid before") {
				t.Errorf("a minute later: got %v, want the same %v", later, err)
			}
		})
	}
}

// file is "none" for a file that the set does not have.
func file(text string) []byte {
	if text == "none" {
		return nil
	}
	return []byte(text)
}

func TestCheckDescribesTheLeaf(t *testing.T) {
	leaf := issue(t, "leaf", nil, ecKey(t), nil)
	got, err := Check([]byte(leaf.pem()), []byte(pkcs8(t, leaf.key)), nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if got.Serial != "03e9" || !got.NotBefore.Equal(now.Add(-time.Hour)) || !got.NotAfter.Equal(now.Add(time.Hour)) ||
		!slices.Equal(got.DNSNames, []string{"leaf"}) || !slices.Equal(got.URIs, []string{"spiffe://cluster.local/ns/default/sa/leaf"}) {
		t.Errorf("Check: got %+v", got)
	}
	_, err = Check([]byte(leaf.pem()), nil, nil, now)
	var fault *Fault
	if !errors.As(err, &fault) || fault.Part != Key {
		t.Errorf("Check without a key: got %v, want a *Fault of the key", err)
	}
}

// A set that Check accepts is one that Go's TLS accepts: the pair belongs together, and at that time the leaf is valid
// and leads to one of the roots, unless Go cannot read them. A fault is the same at each call, and names a file.
func FuzzCheck(f *testing.F) {
	root := issue(f, "root", nil, ecKey(f), nil)
	leaf := issue(f, "leaf", &root, ecKey(f), nil)
	chain, key, roots := []byte(leaf.pem()), []byte(pkcs8(f, leaf.key)), []byte(root.pem())
	f.Add(chain, key, roots)
	f.Add(chain[:100], key[:50], chain[100:])
	f.Fuzz(func(t *testing.T, chain, key, roots []byte) {
		_, err := Check(chain, key, roots, now)
		var fault *Fault
		if err != nil && !errors.As(err, &fault) {
			t.Errorf("the error %v is no *Fault", err)
		}
		if _, again := Check(chain, key, roots, now); fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("the second call returns %v, the first %v", again, err)
		}
		if err != nil || chain == nil && key == nil {
			return
		}
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			t.Fatalf("Check accepts a pair that TLS does not: %v", err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
			t.Errorf("Check accepts a leaf of %s to %s at %s", leaf.NotBefore, leaf.NotAfter, now)
		}
		_, foreign, _ := parseRoots(roots)
		if pool := x509.NewCertPool(); roots != nil && foreign == 0 && !pool.AppendCertsFromPEM(roots) {
			t.Error("Check accepts roots of which TLS takes none")
		}
	})
}

// Roots that Go does not parse are counted, and no fault.
func TestForeignRoots(t *testing.T) {
	root := issue(t, "root", nil, ecKey(t), nil)
	negative := block("CERTIFICATE", bytes.Replace(root.Raw, []byte{2, 2, 3, 0xe9}, []byte{2, 2, 0x83, 0xe9}, 1), nil)
	roots, foreign, err := parseRoots([]byte(root.pem() + negative))
	if len(roots) != 1 || foreign != 1 || err != nil {
		t.Errorf("%d roots, %d foreign, %v; want one of each", len(roots), foreign, err)
	}
}
