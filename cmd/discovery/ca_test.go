package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
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

// A running discovery takes a rotation up: answers have both roots, certificates are still of the old one, and a restart goes on. An abort is followed too.
func TestServeRotates(t *testing.T) {
	dir, address := filepath.Join(t.TempDir(), "ca"), freeAddress(t)
	arguments := []string{"--configDir", t.TempDir(), "--ca", "--caDir", dir, "--secureGRPCAddr", address}
	token := command(t, "token", "create", "--namespace", "shop", "--service-account", "web", "--caDir", dir)
	s := startServe(t, arguments...)
	c := newCaller(t, address, dir)
	pair := c.certificate(token, nil)
	roots := func(want int) {
		t.Helper()
		if err := lab.Eventually(30*time.Second, func() error {
			_, out, err := c.ask("", pair)
			if text, _ := out["roots"].(string); err != nil || strings.Count(text, "BEGIN") != want {
				return fmt.Errorf("%v %v, want %d roots", out, err, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	roots(1)
	if out := command(t, "ca", "rotate", "--caDir", dir); !strings.Contains(out, ", begun: ") {
		t.Errorf("rotate says %q", out)
	}
	roots(2)
	if renewed := c.certificate("", pair); string(renewed.Leaf.AuthorityKeyId) != string(pair.Leaf.AuthorityKeyId) {
		t.Error("the new root has signed while agents do not trust it")
	}
	if out := command(t, "ca", "rotate", "--caDir", dir); !strings.Contains(out, ", trust: ") || !strings.Contains(out, "the new root signs at") {
		t.Errorf("rotate says %q", out)
	}
	if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "the root of --caDir is being rotated, trust: ") {
		t.Errorf("/ready?verbose does not name the rotation:\n%s", page)
	}
	s.stop(t)
	s = startServe(t, arguments...)
	code, both := c.trusted(pair, nil)
	if code != http.StatusOK || bytes.Count(both, []byte("BEGIN")) != 2 {
		t.Errorf("the roots are %d %s", code, both)
	}
	if code, _ := c.trusted(pair, both); code != http.StatusNotModified { // it is counted, though a discovery of before has signed it
		t.Errorf("a caller that has the roots gets %d", code)
	}
	if err := lab.Eventually(30*time.Second, func() error {
		if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "1 of 1 certificates that are known came with both roots") {
			return errors.New(page)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	roots(2)
	if said := command(t, "ca", "rotate", "--abort", "--caDir", dir); !strings.Contains(said, "is aborted") {
		t.Errorf("an abort says %q", said)
	}
	roots(1)
	if text, err := os.ReadFile(filepath.Join(dir, "root-cert.pem")); err != nil || strings.Count(string(text), "BEGIN") != 1 {
		t.Errorf("root-cert.pem: %v\n%s", err, text)
	}
	s.stop(t)
}

// trusted asks for the roots with a certificate, and says which roots it has.
func (c *caller) trusted(with *tls.Certificate, have []byte) (code int, roots []byte) {
	c.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: c.roots, ServerName: "localhost", Certificates: []tls.Certificate{*with}}}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, fmt.Sprintf("https://%s/v1/roots?have=%x", c.address, sha256.Sum256(have)), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var out struct{ Roots string }
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil && response.StatusCode == http.StatusOK {
		c.t.Fatal(err)
	}
	return response.StatusCode, []byte(out.Roots)
}

// A rotation comes to its end under a running discovery: each certificate that lives is taken all the time.
func TestServeEndsARotation(t *testing.T) {
	dir, address := filepath.Join(t.TempDir(), "ca"), freeAddress(t)
	token := command(t, "token", "create", "--namespace", "shop", "--service-account", "web", "--caDir", dir)
	s := startServe(t, "--configDir", t.TempDir(), "--ca", "--caDir", dir, "--secureGRPCAddr", address)
	c := newCaller(t, address, dir)
	old := c.certificate(token, nil)
	command(t, "ca", "rotate", "--caDir", dir)
	is := func(phase string) {
		t.Helper()
		if err := lab.Eventually(30*time.Second, func() error {
			if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "is being rotated, "+phase) {
				return fmt.Errorf("phase %s is not there: %s", phase, page)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	past := func(names ...string) { // as if a life had passed
		t.Helper()
		path, values := filepath.Join(dir, "rotation.json"), map[string]any{}
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &values)
		}
		for i, name := range names {
			values[name] = time.Now().Add(time.Duration(i-100) * time.Hour)
		}
		if err == nil {
			text, err = json.Marshal(values)
		}
		if err == nil {
			err = os.WriteFile(path+".new", text, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	is("trust")
	_, out, err := c.ask("", old)
	if err != nil {
		t.Fatal(err)
	}
	past("began")
	is("leaves")
	young := c.certificate("", old) // of a caller that trusts the old root alone: discovery's own certificate is still of that
	if string(young.Leaf.AuthorityKeyId) == string(old.Leaf.AuthorityKeyId) {
		t.Error("the old root still signs")
	}
	c.certificate("", old)
	c.roots.AppendCertsFromPEM([]byte(out["roots"].(string)))
	past("began", "switched", "until")
	if err := lab.Eventually(30*time.Second, func() error {
		_, out, err := c.ask("", young)
		if text, _ := out["roots"].(string); err != nil || strings.Count(text, "BEGIN") != 1 {
			return fmt.Errorf("%v %v, want one root", out, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if code, _, err := c.ask("", old); err == nil && code == 200 {
		t.Error("a certificate of a root that is forgotten is taken")
	}
	if page := s.get(t, s.web, "/ready?verbose"); strings.Contains(page, "rotated") {
		t.Errorf("the rotation has ended, and is named:\n%s", page)
	}
	if out := command(t, "ca", "rotate", "--caDir", dir); !strings.Contains(out, ", begun: ") {
		t.Errorf("another rotation says %q", out)
	}
	s.stop(t)
}

// Files of another authority sign when they are trusted, also after a restart; with --now at once, and the command prints what breaks.
func TestServeFollowsReplacedFiles(t *testing.T) {
	dir, state, address := filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "state"), freeAddress(t)
	arguments := []string{"--configDir", t.TempDir(), "--ca", "--caDir", dir, "--stateDir", state, "--secureGRPCAddr", address}
	token := command(t, "token", "create", "--namespace", "shop", "--service-account", "web", "--caDir", dir)
	s := startServe(t, arguments...)
	c := newCaller(t, address, dir)
	old := c.certificate(token, nil)
	s.stop(t)
	other, err := lab.NewAuthority("another root")
	if err == nil {
		err = other.Plug(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	s = startServe(t, arguments...)
	if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "the root of --caDir is being rotated, trust: ") {
		t.Errorf("/ready?verbose does not name the rotation:\n%s", page)
	}
	if renewed := c.certificate("", old); string(renewed.Leaf.AuthorityKeyId) != string(old.Leaf.AuthorityKeyId) {
		t.Error("the new key has signed while agents do not trust its root")
	}
	if code, roots := c.trusted(old, nil); code != http.StatusOK || bytes.Count(roots, []byte("BEGIN")) != 2 {
		t.Errorf("the roots are %d %s", code, roots)
	}
	said := command(t, "ca", "rotate", "--now", "--caDir", dir)
	for _, want := range []string{"is used at once", "What breaks", "--caRoots", "stay valid until they end"} {
		if !strings.Contains(said, want) {
			t.Errorf("--now says %q, want %q", said, want)
		}
	}
	c.roots.AppendCertsFromPEM(other.PEM())
	if err := lab.Eventually(30*time.Second, func() error {
		if page := s.get(t, s.web, "/ready?verbose"); strings.Contains(page, "rotated") {
			return errors.New(page)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if code, _, err := c.ask("", old); err == nil && code == http.StatusOK {
		t.Error("a certificate of the key before is taken")
	}
	if young := c.certificate(token, nil); string(young.Leaf.AuthorityKeyId) == string(old.Leaf.AuthorityKeyId) {
		t.Error("the key before still signs")
	}
	for _, flags := range [][]string{{"--now", "--abort"}, {"--now", "--again"}} {
		if code := run(t.Context(), append([]string{"ca", "rotate", "--caDir", dir}, flags...), nil, io.Discard, io.Discard); code != 2 {
			t.Errorf("%q: code %d, want 2", flags, code)
		}
	}
	s.stop(t)
}
