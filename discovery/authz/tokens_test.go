package authz

import (
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"testing"

	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The key that nobody has is the first point of P-256 whose x is the hash of a text: nobody has chosen it.
func TestNobodyHasTheKey(t *testing.T) {
	curve := elliptic.P256().Params()
	for i := 0; ; i++ {
		h := sha256.Sum256(fmt.Appendf(nil, "a key that nobody has %d", i))
		x := new(big.Int).SetBytes(h[:])
		y := new(big.Int).Exp(x, big.NewInt(3), curve.P)
		y.Sub(y, new(big.Int).Mul(x, big.NewInt(3))).Add(y, curve.B).Mod(y, curve.P)
		if y.ModSqrt(y, curve.P) == nil {
			continue
		}
		want := fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","x":%q,"y":%q}]}`, base64.RawURLEncoding.EncodeToString(h[:]),
			base64.RawURLEncoding.EncodeToString(y.FillBytes(make([]byte, 32))))
		if keys, fault, doubt := model.ReadKeySet(noKeys); noKeys != want || keys != want || fault+doubt != "" {
			t.Errorf("the keys are %s, read %s, want %s", noKeys, keys, want)
		}
		return
	}
}

// What is required of a request: each token must be sound, and one is enough where several issuers' are at one place; what
// cannot be read goes before, and takes none.
func TestRequirements(t *testing.T) {
	for want, issuers := range map[string][]string{
		"":                                      nil,
		"any(a none)":                           {"a"},
		"any(a b all(any(a none) any(b none)))": {"b", "a"},
		"any(? none)":                           {""},
		"all(any(? none) any(a none))":          {"a", ""},
		"all(any(? none) any(a a all(any(a none) any(a none))))": {"a", "", "a"},
	} {
		p := model.Policy{Tokens: &security.RequestAuthentication{}}
		for _, issuer := range issuers {
			p.Tokens.JwtRules = append(p.Tokens.JwtRules, &security.JWTRule{Issuer: issuer})
		}
		f, some := authenticate([]model.Policy{{Spec: &security.AuthorizationPolicy{}}, p}, false)
		c := &jwtv3.JwtAuthentication{}
		if some {
			if err := f.Config.UnmarshalTo(c); err != nil {
				t.Fatal(err)
			}
		}
		if got := spell(c, c.RequirementMap[tokens]); got != want || some != (want != "") {
			t.Errorf("%q: %s, want %s", issuers, got, want)
		}
	}
}

// spell writes a requirement by the issuers of its providers.
func spell(c *jwtv3.JwtAuthentication, r *jwtv3.JwtRequirement) string {
	all := func(name string, of []*jwtv3.JwtRequirement) string {
		var out []string
		for _, r := range of {
			out = append(out, spell(c, r))
		}
		return name + "(" + strings.Join(out, " ") + ")"
	}
	switch r := r.GetRequiresType().(type) {
	case *jwtv3.JwtRequirement_RequiresAny:
		return all("any", r.RequiresAny.Requirements)
	case *jwtv3.JwtRequirement_RequiresAll:
		return all("all", r.RequiresAll.Requirements)
	case *jwtv3.JwtRequirement_AllowMissing:
		return "none"
	case *jwtv3.JwtRequirement_ProviderName:
		if issuer := c.Providers[r.ProviderName].Issuer; issuer != "" {
			return issuer
		}
		return "?"
	}
	return ""
}
