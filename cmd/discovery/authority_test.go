package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// caller asks the HTTP door of a discovery for certificates.
type caller struct {
	t       *testing.T
	address string
	roots   *x509.CertPool
	key     *ecdsa.PrivateKey
	csr     string
}

func newCaller(t *testing.T, address, dir string) *caller {
	t.Helper()
	var text []byte
	if err := lab.Eventually(20*time.Second, func() (err error) {
		text, err = os.ReadFile(filepath.Join(dir, "root-cert.pem"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c := &caller{t: t, address: address, roots: x509.NewCertPool()}
	c.roots.AppendCertsFromPEM(text)
	c.newKey()
	return c
}

// newKey makes a key, and a CSR that names somebody else.
func (c *caller) newKey() {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	admin, _ := url.Parse("spiffe://cluster.local/ns/kube-system/sa/admin")
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{admin}, DNSNames: []string{"bank.example"}}, key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.key, c.csr = key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// ask asks with a token and a certificate, which may be missing.
func (c *caller) ask(token string, with *tls.Certificate) (int, map[string]any, error) {
	config := &tls.Config{RootCAs: c.roots, ServerName: "localhost"}
	if with != nil {
		config.Certificates = []tls.Certificate{*with}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	body, _ := json.Marshal(map[string]string{"csr": c.csr})
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, "https://"+c.address+"/v1/certificates", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	out := map[string]any{}
	err = json.NewDecoder(response.Body).Decode(&out)
	return response.StatusCode, out, err
}

// certificate asks until there is an answer, for discovery may just begin.
func (c *caller) certificate(token string, with *tls.Certificate) *tls.Certificate {
	c.t.Helper()
	var pair tls.Certificate
	if err := lab.Eventually(20*time.Second, func() error {
		code, out, err := c.ask(token, with)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %v, %v", code, out, err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(c.key)
		if err != nil {
			return err
		}
		pair, err = tls.X509KeyPair([]byte(out["chain"].(string)), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	return &pair
}

func (c *caller) refused(name, token string, with *tls.Certificate) {
	c.t.Helper()
	code, out, err := c.ask(token, with)
	if err != nil || code != http.StatusUnauthorized || out["error"] != "refused" || len(out) != 1 {
		c.t.Errorf("%s: %d %v, %v; want 401 refused", name, code, out, err)
	}
}

// command runs a command of discovery, and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out, said strings.Builder
	if code := run(context.Background(), args, nil, &out, &said); code != 0 {
		t.Fatalf("%v: code %d, %s", args, code, said.String())
	}
	return strings.TrimSpace(out.String())
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
}

// A machine joins with a token, and renews by its certificate, across a restart of discovery.
func TestServeSignsCertificates(t *testing.T) {
	dir, address := filepath.Join(t.TempDir(), "ca"), freeAddress(t)
	arguments := []string{"--configDir", t.TempDir(), "--ca", "--caDir", dir, "--secureGRPCAddr", address}
	many := command(t, "token", "create", "--namespace", "shop", "--service-account", "web", "--caDir", dir)
	once := command(t, "token", "create", "--namespace", "shop", "--service-account", "till", "--once", "--caDir", dir)
	s := startServe(t, arguments...)
	c := newCaller(t, address, dir)
	pair := c.certificate(many, nil)
	if got := pair.Leaf; len(got.URIs) != 1 || got.URIs[0].String() != "spiffe://cluster.local/ns/shop/sa/web" || len(got.DNSNames) > 0 {
		t.Errorf("names %v %v, want those of the token alone", got.URIs, got.DNSNames)
	}
	renewed := c.certificate("", pair)
	if renewed.Leaf.URIs[0].String() != "spiffe://cluster.local/ns/shop/sa/web" || renewed.Leaf.SerialNumber.Cmp(pair.Leaf.SerialNumber) == 0 {
		t.Errorf("renewed as %v, %v", renewed.Leaf.URIs, renewed.Leaf.SerialNumber)
	}
	till := c.certificate(once, nil)
	c.certificate(once, nil) // its answer was lost
	c.newKey()
	c.refused("a token that was used", once, nil)
	c.refused("a forged token", many[:len(many)-3]+"AAA", nil)
	c.refused("nothing", "", nil)
	if metrics := s.get(t, s.stats, "/metrics"); !strings.Contains(metrics, `pilotlight_ca_issued_total{proof="certificate"} 1`) ||
		!strings.Contains(metrics, `pilotlight_ca_refused_total{cause="join-token"} 2`) {
		t.Errorf("metrics of the authority:\n%s", metrics)
	}
	s.stop(t)

	id := strings.Split(many, "-")[1]
	command(t, "token", "revoke", id, "--caDir", dir)
	if list := command(t, "token", "list", "--caDir", dir); !strings.Contains(list, id) || !strings.Contains(list, "revoked") || !strings.Contains(list, "used") || strings.Contains(list, many[30:]) {
		t.Errorf("tokens:\n%s", list)
	}
	s = startServe(t, arguments...)
	c.certificate("", renewed)
	c.refused("a revoked token", many, nil)
	c.refused("a token that was used before the restart", once, nil)
	if c.certificate(once, till).Leaf.URIs[0].String() != "spiffe://cluster.local/ns/shop/sa/till" {
		t.Error("the certificate must decide")
	}
	s.stop(t)
}

// Discovery does not begin with half an authority, and says what is wrong.
func TestServeRefusesAnAuthority(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca-key.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	code := run(t.Context(), []string{"serve", "--configDir", t.TempDir(), "--ca", "--caDir", dir}, nil, io.Discard, &said)
	if code != 1 || !strings.Contains(said.String(), "--caDir: "+dir+": has ca-key.pem and not ca-cert.pem, root-cert.pem") {
		t.Errorf("code %d, %s", code, said.String())
	}
}

// foundry is an issuer of tokens.
type foundry struct {
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newFoundry(t *testing.T) foundry {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return foundry{t, key}
}

func (f foundry) token(subject, audience string) string {
	f.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: f.key}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	expires := jwt.NewNumericDate(time.Now().Add(time.Hour))
	token, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: "https://issuer.test", Subject: subject, Audience: jwt.Audience{audience}, Expiry: expires}).Serialize()
	if err != nil {
		f.t.Fatal(err)
	}
	return token
}

// publish puts the public key into a file, as a whole.
func (f foundry) publish(path string) {
	f.t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key.Public(), Use: "sig"}}})
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// A token of an issuer brings the identity that its claims give; keys are followed while discovery runs, and the last good ones stay.
func TestServeTakesTokensOfIssuers(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	file, keys := filepath.Join(dir, "issuers.yaml"), filepath.Join(dir, "keys.json")
	text := "issuers:\n- issuer: https://issuer.test\n  jwksFile: keys.json\n  identities:\n  - claims: {sub: \"machine:{namespace}/{serviceAccount}\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--configDir", t.TempDir(), "--ca", "--caDir", filepath.Join(dir, "ca"), "--caIssuers", file, "--secureGRPCAddr", address)
	c := newCaller(t, address, filepath.Join(dir, "ca"))
	before, after := newFoundry(t), newFoundry(t)
	if code, _, err := c.ask(before.token("machine:shop/web", "istio-ca"), nil); err != nil || code != 503 {
		t.Errorf("without keys: %d, %v; want 503", code, err)
	}
	if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "keys cannot be read") {
		t.Errorf("/ready?verbose does not name the keys:\n%s", page)
	}
	before.publish(keys)
	pair := c.certificate(before.token("machine:shop/web", "istio-ca"), nil)
	if got := pair.Leaf.URIs; len(got) != 1 || got[0].String() != "spiffe://cluster.local/ns/shop/sa/web" {
		t.Errorf("names %v", got)
	}
	c.certificate("", pair)
	c.refused("another audience", before.token("machine:shop/web", "vault"), nil)
	c.refused("no name", before.token("machine:shop/../kube-system/admin", "istio-ca"), nil)
	c.refused("another key", after.token("machine:shop/web", "istio-ca"), nil)
	if err := os.WriteFile(keys, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := lab.Eventually(30*time.Second, func() error {
		if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "1 of before are used") {
			return fmt.Errorf("/ready?verbose does not name the keys:\n%s", page)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	c.certificate(before.token("machine:shop/web", "istio-ca"), nil)
	after.publish(keys)
	c.certificate(after.token("machine:shop/web", "istio-ca"), nil)
	c.refused("the key of before", before.token("machine:shop/web", "istio-ca"), nil)
	s.stop(t)
}

// A file of issuers with a mistake is refused, with its place.
func TestServeRefusesIssuers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "issuers.yaml")
	if err := os.WriteFile(file, []byte("issuers:\n- issuer: i\n  jwks: f\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	code := run(t.Context(), []string{"serve", "--configDir", t.TempDir(), "--ca", "--caDir", t.TempDir(), "--caIssuers", file}, nil, io.Discard, &said)
	if code != 1 || !strings.Contains(said.String(), "--caIssuers: "+file+": yaml: unmarshal errors:\n  line 3: field jwks not found") {
		t.Errorf("code %d, %s", code, said.String())
	}
}
