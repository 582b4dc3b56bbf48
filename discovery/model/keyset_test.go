package model_test

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const okp = `{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`

// Envoy gets the keys that it knows, and of each only what it reads.
func TestReadKeySet(t *testing.T) {
	const same = `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	for text, want := range map[string]struct{ keys, said string }{
		`{"keys": [` + okp + `]}`: {same, ""},
		`{"keys": [` + strings.Replace(okp, `"x"`, `"d": "AQ", "x"`, 1) + `]}`:                                                      {same, "a private key"},
		`{"keys": [{"kty": "RSA", "use": "enc"}, ` + okp + `]}`:                                                                     {same, "it is for encryption"},
		`{"keys": [{"kty": "new"}, ` + okp + `, 7]}`:                                                                                {same, "it is no object"},
		`{"keys": [` + strings.Replace(okp, `Ro"`, `Ro="`, 1) + `]}`:                                                                {same, ""},
		`{"keys": [` + strings.Replace(okp, "kty", "KTY", 1) + `]}`:                                                                 {"", `kty is ""`},
		`{"Keys": [` + okp + `]}`:                                                                                                   {"", "has no key"},
		`{"keys": [` + strings.Replace(okp, `"x"`, `"kid": 1, "x"`, 1) + `]}`:                                                       {"", "kid is no text"},
		`{"keys": [` + strings.Replace(okp, `"x"`, `"alg": "ES256", "x"`, 1) + `]}`:                                                 {"", `alg is "ES256", want EdDSA`},
		`{"keys": [{"kty": "EC", "crv": "P-256", "x": "` + strings.Repeat("A", 43) + `", "y": "` + strings.Repeat("A", 43) + `"}]}`: {"", "no point of P-256"},
		`{"keys": [{"kty": "oct", "k": ""}]}`:                                                                                       {"", "k is missing"},
		`{"keys": [` + strings.Repeat(okp+",", 64) + okp + `]}`:                                                                     {"", "has 65 keys, want at most 64"},
		`{"keys": {}}`: {"", "is no JSON Web Key Set"},
		`[]`:           {"", "is no JSON Web Key Set"},
		`{"keys": [], "x": "` + strings.Repeat("a", 256<<10) + `"}`: {"", "want at most 262144"},
	} {
		keys, fault, doubt := model.ReadKeySet(text)
		if keys != want.keys || (keys == "") != (fault != "") || want.said == "" && doubt != "" || !strings.Contains(fault+doubt, want.said) {
			t.Errorf("%.100s: %s, fault %q, doubt %q", text, keys, fault, doubt)
		}
	}
}
