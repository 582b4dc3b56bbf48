package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates for tests.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes a root.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &Authority{certificate, key}, err
}

// Pool returns a pool with the root, for a client.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// PEM returns the root as PEM.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Plug writes the files of a plugged in authority into a directory, under Istio's names, for discovery's --caDir.
func (a *Authority) Plug(dir string) error {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"ca-cert.pem": a.PEM(), "cert-chain.pem": a.PEM(), "root-cert.pem": a.PEM(), "ca-key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Identity is a certificate with its key and root, in PEM.
type Identity struct{ Chain, Key, Roots []byte }

// Issue makes an identity for a DNS name, or for a SPIFFE ID. Envoy's /certs writes its serial number as hex: 1001 is
// "03e9".
func (a *Authority) Issue(name string, serial int64) (Identity, error) {
	return a.IssueWith(name, serial, func(*x509.Certificate) {})
}

// IssueWith is Issue with a change of the certificate before it is signed.
func (a *Authority) IssueWith(name string, serial int64, change func(*x509.Certificate)) (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if id, err := url.Parse(name); err == nil && id.Scheme == "spiffe" {
		template.DNSNames, template.URIs = nil, []*url.URL{id}
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Identity{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Identity{}, err
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return Identity{block("CERTIFICATE", der), block("PRIVATE KEY", private), a.PEM()}, nil
}

// Pair returns the identity for Go's TLS.
func (i Identity) Pair() (tls.Certificate, error) { return tls.X509KeyPair(i.Chain, i.Key) }

// Write puts an identity into a directory as NAME.pem and NAME.key, beside ca.pem.
func (i Identity) Write(dir, name string) error {
	for file, data := range map[string][]byte{name + ".pem": i.Chain, name + ".key": i.Key, "ca.pem": i.Roots} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Mount puts an identity into a directory as Kubernetes mounts a secret: files are links into ..data, which is a link
// to a directory that is swapped by rename.
func (i Identity) Mount(dir string) error {
	version := fmt.Sprintf("..%d", time.Now().UnixNano())
	if err := os.MkdirAll(filepath.Join(dir, version), 0o755); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"cert-chain.pem": i.Chain, "key.pem": i.Key, "root-cert.pem": i.Roots} {
		if err := os.WriteFile(filepath.Join(dir, version, name), data, 0o600); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil || old == "" {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

// Issuer makes JSON Web Tokens.
type Issuer struct {
	Name string
	key  ed25519.PrivateKey
}

// NewIssuer makes the key of an issuer.
func NewIssuer(t *testing.T, name string) Issuer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Issuer{name, key}
}

// Named returns an issuer of the same key.
func (i Issuer) Named(name string) Issuer { return Issuer{name, i.key} }

// Keys returns the issuer's JSON Web Key Set.
func (i Issuer) Keys() string {
	x := base64.RawURLEncoding.EncodeToString(i.key.Public().(ed25519.PublicKey))
	return fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": %q}]}`, x)
}

// Token signs claims.
func (i Issuer) Token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": i.Name, "sub": "reader", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	part := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	text := part(map[string]any{"alg": "EdDSA", "kid": "1"}) + "." + part(all)
	signature, err := i.key.Sign(nil, []byte(text), crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}
