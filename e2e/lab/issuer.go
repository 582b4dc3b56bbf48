package lab

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"
)

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
