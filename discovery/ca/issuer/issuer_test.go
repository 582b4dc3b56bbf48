package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pilotlight/pilotlight/discovery/ca/server"
)

const (
	nomad = "https://nomad.test"
	two   = `issuers:
- issuer: ` + nomad + `
  jwksFile: nomad.json
  identities:
  - claims: {sub: "system:serviceaccount:{namespace}:{serviceAccount}"}
  - claims: {job: {name: "{serviceAccount}"}, environment: live}
    namespace: live
- issuer: https://ci.test
  jwksFile: ci.json
  audiences: [mesh]
  identities:
  - {claims: {repository: acme/shop}, namespace: ci, serviceAccount: shop}
`
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// signer makes tokens.
type signer struct {
	t         testing.TB
	algorithm jose.SignatureAlgorithm
	id        string
	key       any
}

func (s signer) token(claims map[string]any) string {
	s.t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if s.id != "" {
		options = options.WithHeader("kid", s.id)
	}
	signing, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: s.key}, options)
	if err != nil {
		s.t.Fatal(err)
	}
	token, err := jwt.Signed(signing).Claims(claims).Serialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// jwk returns the public key as a JWKS has it.
func (s signer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.(crypto.Signer).Public(), KeyID: s.id, Use: "sig"}
}

func set(t testing.TB, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newEC(t testing.TB, curve elliptic.Curve, algorithm jose.SignatureAlgorithm, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, algorithm, id, key}
}

func newRSA(t testing.TB, bits int, algorithm jose.SignatureAlgorithm, id string) signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, algorithm, id, key}
}

// good returns claims of a token that is taken, but for changes; nil removes one.
func good(changes map[string]any) map[string]any {
	out := map[string]any{"iss": nomad, "sub": "system:serviceaccount:shop:web", "aud": []string{"other", Audience}, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for name, value := range changes {
		if out[name] = value; value == nil {
			delete(out, name)
		}
	}
	return out
}

// Keys of its issuer, times, audience and claims decide who a token is.
func TestJudge(t *testing.T) {
	issuers, err := Read([]byte(two))
	if err != nil {
		t.Fatal(err)
	}
	one, other, rsaKey := newEC(t, elliptic.P256(), jose.ES256, "a"), newEC(t, elliptic.P256(), jose.ES256, "b"), newRSA(t, 2048, jose.RS256, "r")
	nameless := newEC(t, elliptic.P384(), jose.ES384, "")
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ed := signer{t, jose.EdDSA, "e", edwards}
	read := func(keys ...jose.JSONWebKey) []key {
		out, notes, err := readKeys(set(t, keys...))
		if err != nil || len(notes) > 0 {
			t.Fatal(err, notes)
		}
		return out
	}
	keys := map[string][]key{nomad: read(one.jwk(), rsaKey.jwk(), ed.jwk(), nameless.jwk())}
	ci := map[string][]key{"https://ci.test": read(other.jwk())}
	as := func(s signer, algorithm jose.SignatureAlgorithm, id string) signer {
		s.algorithm, s.id = algorithm, id
		return s
	}
	raw := func(header, payload string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "."
	}
	payload, err := json.Marshal(good(nil))
	if err != nil {
		t.Fatal(err)
	}
	public, err := rsaKey.jwk().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	secret := signer{t, jose.HS256, "r", public}
	for name, of := range map[string]struct {
		token  string
		keys   map[string][]key
		want   string // an identity, or
		fault  string // a part of the reason
		others bool   // another one may know the token
	}{
		"good":                       {token: one.token(good(nil)), want: "shop/web"},
		"RSA":                        {token: rsaKey.token(good(nil)), want: "shop/web"},
		"RSA, PSS":                   {token: as(rsaKey, jose.PS512, "r").token(good(nil)), want: "shop/web"},
		"Ed25519":                    {token: ed.token(good(nil)), want: "shop/web"},
		"no kid":                     {token: as(one, jose.ES256, "").token(good(nil)), want: "shop/web"},
		"no kid, a key without one":  {token: nameless.token(good(nil)), want: "shop/web"},
		"one audience":               {token: one.token(good(map[string]any{"aud": Audience})), want: "shop/web"},
		"the second identity":        {token: one.token(good(map[string]any{"sub": "x", "environment": "live", "job": map[string]any{"name": "till"}})), want: "live/till"},
		"a clock that is slow":       {token: one.token(good(map[string]any{"exp": now.Add(-59 * time.Second).Unix()})), want: "shop/web"},
		"a clock that is fast":       {token: one.token(good(map[string]any{"nbf": now.Add(59 * time.Second).Unix(), "iat": now.Add(59 * time.Second).Unix()})), want: "shop/web"},
		"fixed":                      {token: other.token(good(map[string]any{"iss": "https://ci.test", "aud": "mesh", "repository": "acme/shop"})), keys: ci, want: "ci/shop"},
		"another repository":         {token: other.token(good(map[string]any{"iss": "https://ci.test", "aud": "mesh", "repository": "acme/shop2"})), keys: ci, fault: `claim ["repository"] is "acme/shop2", want "acme/shop"`},
		"another's audience":         {token: other.token(good(map[string]any{"iss": "https://ci.test", "repository": "acme/shop"})), keys: ci, fault: `is for the audiences "[other istio-ca]", want one of ["mesh"]`},
		"another issuer's key":       {token: as(other, jose.ES256, "a").token(good(nil)), fault: "is signed by none of the 1 keys that fit (kid \""},
		"a foreign key, no kid":      {token: as(other, jose.ES256, "").token(good(nil)), fault: "is signed by none of the 1 keys that fit (kid \""},
		"a kid that is not there":    {token: as(one, jose.ES256, "zz").token(good(nil)), fault: `none of the 4 keys has the kid "zz" and fits the algorithm ES256`},
		"a kid of another type":      {token: as(one, jose.ES256, "r").token(good(nil)), fault: `none of the 4 keys has the kid "r"`},
		"no end":                     {token: one.token(good(map[string]any{"exp": nil})), fault: "has no exp"},
		"expired":                    {token: one.token(good(map[string]any{"exp": now.Add(-61 * time.Second).Unix()})), fault: "expired at 2026-03-01T11:58:59Z, and now it is 2026-03-01T12:00:00Z"},
		"an end that is no time":     {token: one.token(good(map[string]any{"exp": "never"})), fault: `has the exp "never", want seconds`},
		"an end after all times":     {token: one.token(good(map[string]any{"exp": 1e300})), fault: `has the exp "1e+300"`},
		"a kid that is no text":      {token: raw(`{"alg":"ES256","kid":1}`, string(payload)), fault: "has a kid that is no text"},
		"an audience that is a map":  {token: one.token(good(map[string]any{"aud": map[string]any{"istio-ca": true}})), fault: "is for the audiences"},
		"an end beyond all times":    {token: one.token(good(map[string]any{"exp": -1e300})), fault: `has the exp "-1e+300"`},
		"not yet":                    {token: one.token(good(map[string]any{"nbf": now.Add(61 * time.Second).Unix()})), fault: "is not valid before 2026-03-01T12:01:01Z"},
		"issued later":               {token: one.token(good(map[string]any{"iat": now.Add(61 * time.Second).Unix()})), fault: "was issued at"},
		"no audience":                {token: one.token(good(map[string]any{"aud": nil})), fault: `is for the audiences "<nil>"`},
		"a path":                     {token: one.token(good(map[string]any{"sub": "system:serviceaccount:shop/../kube-system:admin"})), fault: `namespace "shop/../kube-system" is not a name`},
		"a third part":               {token: one.token(good(map[string]any{"sub": "system:serviceaccount:shop:web:x"})), fault: `service account "web:x" is not a name`},
		"the root namespace":         {token: one.token(good(map[string]any{"sub": "system:serviceaccount:istio-system:web"})), fault: `give the root namespace "istio-system"`},
		"no parts":                   {token: one.token(good(map[string]any{"sub": "system:serviceaccount::"})), fault: `namespace "" is not a name`},
		"no fit":                     {token: one.token(good(map[string]any{"sub": "x"})), fault: `fits none of its identities: identities[0]: claim ["sub"] is "x", want "system:serviceaccount:{namespace}:{serviceAccount}"; identities[1]: claim ["job" "name"] is no text`},
		"a claim that is a list":     {token: one.token(good(map[string]any{"sub": "x", "environment": []string{"live"}, "job": map[string]any{"name": "till"}})), fault: `claim ["environment"] is no text in it`},
		"an issuer with no key":      {token: other.token(good(map[string]any{"iss": "https://ci.test"})), fault: "the keys of issuer \"https://ci.test\" are not known"},
		"an unknown issuer":          {token: one.token(good(map[string]any{"iss": "https://evil.test"})), fault: `its issuer "https://evil.test" is not in --caIssuers`, others: true},
		"no issuer":                  {token: one.token(good(map[string]any{"iss": nil})), fault: `its issuer "" is not`, others: true},
		"alg none":                   {token: raw(`{"alg":"none"}`, string(payload)), fault: "its alg is none, want one of", others: true},
		"alg None":                   {token: raw(`{"alg":"None","kid":"a"}`, string(payload)), fault: "signing method (alg) is unavailable", others: true},
		"HMAC by the public key":     {token: secret.token(good(nil)), fault: "its alg is HS256, want one of", others: true},
		"no signature":               {token: raw(`{"alg":"ES256","kid":"a"}`, string(payload)), fault: "is signed by none of the 1 keys that fit (kid \""},
		"an extension that it needs": {token: raw(`{"alg":"ES256","kid":"a","crit":["x"],"x":1}`, string(payload)), fault: "has critical headers (crit)"},
		"a key of its own":           {token: withKey(t, other, good(nil)), fault: "is signed by none of the 1 keys that fit (kid \""},
		"long":                       {token: one.token(good(map[string]any{"x": strings.Repeat("x", longestToken)})), fault: "at most 16384 are allowed", others: true},
		"two parts":                  {token: "a.b", fault: server.ErrForeign.Error(), others: true},
		"nothing":                    {token: "", fault: server.ErrForeign.Error(), others: true},
		"dots":                       {token: "..", fault: "is no JWT", others: true},
	} {
		t.Run(name, func(t *testing.T) {
			if of.keys == nil {
				of.keys = keys
			}
			id, err := judge(issuers, of.keys, of.token, "cluster.local", "istio-system", now)
			if err != nil {
				if of.want != "" || !strings.Contains(err.Error(), of.fault) || errors.Is(err, server.ErrForeign) != of.others {
					t.Errorf("%v; want %q, or the reason %q, another's %t", err, of.want, of.fault, of.others)
				}
				if strings.Contains(err.Error(), strings.Repeat("x", 300)) || of.token != "" && strings.Contains(err.Error(), of.token) {
					t.Errorf("the reason has the token: %v", err)
				}
				return
			}
			if got := id.Namespace + "/" + id.ServiceAccount; got != of.want || id.TrustDomain != "cluster.local" {
				t.Errorf("%s, want %q and the reason %q", id, of.want, of.fault)
			}
		})
	}
	busy := new(server.Busy)
	if _, err := judge(issuers, keys, other.token(good(map[string]any{"iss": "https://ci.test"})), "cluster.local", "istio-system", now); !errors.As(err, &busy) {
		t.Errorf("without keys: %v, want to come again", err)
	}
}

// withKey makes a token that has the key of its signature in it.
func withKey(t *testing.T, s signer, claims map[string]any) string {
	t.Helper()
	signing, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: s.key}, (&jose.SignerOptions{EmbedJWK: true}).WithHeader("kid", "a"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signing).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// However a token is edited, it is no other identity than the one that was signed.
func FuzzJudge(f *testing.F) {
	issuers, err := Read([]byte(two))
	if err != nil {
		f.Fatal(err)
	}
	one := newEC(f, elliptic.P256(), jose.ES256, "a")
	held, _, err := readKeys(set(f, one.jwk()))
	if err != nil {
		f.Fatal(err)
	}
	keys := map[string][]key{nomad: held, "https://ci.test": held}
	token := one.token(good(nil))
	f.Add(token, 5, byte('x'))
	f.Add("eyJhbGciOiJub25lIn0.e30.", 0, byte('.'))
	f.Fuzz(func(t *testing.T, foreign string, at int, b byte) {
		edited := []byte(token)
		edited[uint(at)%uint(len(edited))] = b
		for _, text := range []string{foreign, string(edited)} {
			if id, err := judge(issuers, keys, text, "cluster.local", "istio-system", now); err == nil && id.String() != "spiffe://cluster.local/ns/shop/sa/web" {
				t.Errorf("%s by %q", id, text)
			}
		}
	})
}
