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
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// Pebble is a real ACME server, whose questions go to one address.
type Pebble struct {
	*Process
	Port       int // at which it asks
	t          *testing.T
	dir        string
	url        string // of its directory
	management string
	roots      string // file
	authority  *Authority
	spec       Spec
}

// StartPebble starts one that asks at a port of an address, and gives certificates of this life. It is built by envoy-tools/fetch-pebble.
func StartPebble(t *testing.T, address string, port int, life time.Duration) *Pebble {
	t.Helper()
	p := &Pebble{t: t, dir: t.TempDir(), Port: port}
	listen, management, dns := Port(t), Port(t), Port(t)
	_, err := os.Stat(Path("bin", "pebble", "pebble"))
	if err != nil {
		t.Fatalf("%v: run envoy-tools/fetch-pebble, as the targets of make do", err)
	}
	p.authority, err = NewAuthority("pebble")
	p.check(err)
	own, err := p.authority.IssueWith("localhost", 7, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	p.check(err)
	for name, text := range map[string][]byte{"cert.pem": own.Chain, "key.pem": own.Key, "roots.pem": p.authority.PEM()} {
		p.check(os.WriteFile(filepath.Join(p.dir, name), text, 0o600))
	}
	p.roots = filepath.Join(p.dir, "roots.pem")
	p.url = fmt.Sprintf("https://localhost:%d/dir", listen)
	p.management = fmt.Sprintf("https://localhost:%d", management)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": fmt.Sprintf("127.0.0.1:%d", listen), "managementListenAddress": fmt.Sprintf("127.0.0.1:%d", management),
		"certificate": filepath.Join(p.dir, "cert.pem"), "privateKey": filepath.Join(p.dir, "key.pem"),
		"httpPort": p.Port, "tlsPort": Port(t), "domainBlocklist": []string{"blocked.test"}, "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   map[string]any{"default": map[string]any{"description": "of the test", "validityPeriod": int(life.Seconds())}},
	}})
	p.check(err)
	p.check(os.WriteFile(filepath.Join(p.dir, "pebble.json"), config, 0o600))
	resolver, err := Start(Spec{Name: "dns", Dir: p.dir, Argv: []string{
		Path("bin", "pebble", "pebble-challtestsrv"), "-defaultIPv4", address, "-defaultIPv6", "", "-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", "",
		"-dnsserver", fmt.Sprintf("127.0.0.1:%d", dns), "-management", fmt.Sprintf("127.0.0.1:%d", Port(t)),
	}})
	p.check(err)
	t.Cleanup(func() { resolver.Stop(StopLimit) })
	p.spec = Spec{Name: "pebble", Dir: p.dir, Env: []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0"}, Argv: []string{
		Path("bin", "pebble", "pebble"), "-config", filepath.Join(p.dir, "pebble.json"), "-dnsserver", fmt.Sprintf("127.0.0.1:%d", dns),
	}}
	p.start()
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *Pebble) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *Pebble) start() {
	p.t.Helper()
	var err error
	p.Process, err = Start(p.spec)
	p.check(err)
	p.check(Eventually(StopLimit, func() error { _, err := p.Root(); return err }))
}

func (p *Pebble) stop() {
	p.Process.Signal(syscall.SIGCONT)
	p.Process.Stop(StopLimit)
}

// Issuer returns a value of --acmeIssuer with this issuer instead of the public one.
func (p *Pebble) Issuer(typed string) string {
	name, _, _ := strings.Cut(typed, "=")
	_, options, _ := strings.Cut(typed, ",")
	return name + "=" + p.url + "," + options + ",roots=" + p.roots
}

// Orders returns how many orders it has taken, without requests whose nonce it refused, and Issued how many certificates it has given.
func (p *Pebble) Orders() int { return strings.Count(p.Log(), "Added order ") }

// Issued is described at Orders.
func (p *Pebble) Issued() int { return strings.Count(p.Log(), "Issued certificate serial") }

// Root returns the root of the certificates that it gives.
func (p *Pebble) Root() (*x509.CertPool, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.authority.Pool()}, DisableKeepAlives: true}}
	answer, err := client.Get(p.management + "/roots/0")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("pebble's root is %q", text)
	}
	return pool, err
}
