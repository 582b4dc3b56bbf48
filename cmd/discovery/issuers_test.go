package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

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
