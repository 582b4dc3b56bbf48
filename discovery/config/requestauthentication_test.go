package config

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	security "istio.io/api/security/v1beta1"
)

const (
	tokenHead = "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: t, namespace: shop}\n"
	tokenKeys = `'{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'`
)

func TestRequestAuthentication(t *testing.T) {
	for spec, want := range map[string]string{
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + "}]":                                      "",
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + ", jwksUri: 'https://a.test/'}]":          "error: spec.jwtRules[0].jwks: is given beside jwksUri",
		"jwtRules: [{issuer: a, jwksUri: 'https://a.test/keys'}]":                               "",
		"jwtRules: [{issuer: a, jwksUri: 'file:///keys'}]":                                      "error: spec.jwtRules[0].jwksUri: is \"file:///keys\", want http",
		"jwtRules: [{issuer: a}]":                                                               "error: spec.jwtRules[0].jwks: is missing",
		"jwtRules: [{issuer: 'https://a.test/x/'}]":                                             "",
		"jwtRules: [{issuer: 'https://a.test/?x'}]":                                             "error: spec.jwtRules[0].jwks: is missing, and so is jwksUri",
		"jwtRules: [{issuer: 'https:///x'}]":                                                    "error: spec.jwtRules[0].jwks: is missing, and so is jwksUri",
		"jwtRules: [{issuer: a.test}]":                                                          "error: spec.jwtRules[0].jwks: is missing, and so is jwksUri",
		"jwtRules: [{jwks: " + tokenKeys + "}]":                                                 "error: spec.jwtRules[0].issuer: is missing",
		"jwtRules: [{issuer: a, jwks: '{}'}]":                                                   "error: spec.jwtRules[0].jwks: has no key that Envoy knows",
		"jwtRules: [{issuer: a, jwks: 'x'}]":                                                    "error: spec.jwtRules[0].jwks: is no JSON Web Key Set",
		`jwtRules: [{issuer: a, jwks: '{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}'}]`: "n has 17 bits, want an odd number of 1024 to 8192",
		`jwtRules: [{issuer: a, jwks: '{"keys": [{"kty": "EC", "crv": "secp256k1"}]}'}]`:        `crv is "secp256k1", want P-256`,
		`jwtRules: [{issuer: a, jwks: '{"keys": [{"kty": "RSA", "n": "wVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVAQ", "e": "AQAB", "d": "AQ"}]}'}]`: "warning: spec.jwtRules[0].jwks: has in keys[0] a private key",
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + ", audiences: ['']}]":                                                      "error: spec.jwtRules[0].audiences[0]: is missing",
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + ", fromParams: ['']}]":                                                     "error: spec.jwtRules[0].fromParams[0]: is missing",
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + ", fromHeaders: [{prefix: x}]}]":                                           "error: spec.jwtRules[0].fromHeaders[0].name: is missing",
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + ", outputPayloadToHeader: ':path'}]":                                       "error: spec.jwtRules[0].outputPayloadToHeader: is \":path\"",
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + ", outputClaimToHeaders: [{header: 'a b', claim: c}]}]":                    "error: spec.jwtRules[0].outputClaimToHeaders[0].header: is \"a b\"",
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + ", outputClaimToHeaders: [{header: a}]}]":                                  "error: spec.jwtRules[0].outputClaimToHeaders[0].claim: is missing",
		"jwtRules: [{issuer: a, jwks: " + tokenKeys + ", outputClaimToHeaders: [{header: a, claim: b}, {header: A, claim: c}]}]": "error: spec.jwtRules[0].outputClaimToHeaders[1].header: is \"A\" again",
		"targetRef: {kind: Gateway, name: a}\njwtRules: [{issuer: a, jwks: " + tokenKeys + "}]":                                  "error: spec.targetRef: names a waypoint",
		"jwtRules: [" + strings.Repeat("{issuer: a, jwks: "+tokenKeys+"}, ", 65) + "]":                                           "error: spec.jwtRules: has 65 rules",
	} {
		_, problems := Decode("f", []byte(tokenHead+"spec:\n  "+strings.ReplaceAll(spec, "\n", "\n  ")))
		var got []string
		for _, p := range problems {
			got = append(got, string(p.Severity)+": "+p.Path+": "+p.Message)
		}
		if all := strings.Join(got, "\n"); want == "" && all != "" || !strings.Contains(all, want) {
			t.Errorf("%s:\n%s\nwant %s", spec, all, want)
		}
	}
}

// What a RequestAuthentication with an error is served as where no good form of it is known. A rule without an issuer takes
// no token, one without keys none of its issuer.
func TestClosedRequestAuthentications(t *testing.T) {
	const all = `{"jwtRules":[{}]}`
	const b = `{"issuer":"b","jwks":"{\"keys\": [{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}"}`
	sound := "{issuer: b, jwks: " + tokenKeys + "}"
	for name, test := range map[string]struct{ text, want string }{
		"sound":                      {tokenHead + "spec: {jwtRules: [" + sound + "]}", ""},
		"keys that are none":         {tokenHead + "spec: {selector: {matchLabels: {app: a}}, jwtRules: [{issuer: a, jwks: '{}'}, " + sound + "]}", `{"selector":{"matchLabels":{"app":"a"}},"jwtRules":[{"issuer":"a","jwks":"{}"},` + b + `]}`},
		"keys of another type":       {tokenHead + "spec: {jwtRules: [{issuer: a, jwks: {keys: []}}]}", `{"jwtRules":[{"issuer":"a","jwks":"{}"}]}`},
		"no issuer":                  {tokenHead + "spec: {jwtRules: [" + sound + ", {jwks: " + tokenKeys + ", fromParams: [t]}]}", `{"jwtRules":[` + b + `,{"fromParams":["t"]}]}`},
		"an audience that is none":   {tokenHead + "spec: {jwtRules: [{issuer: a, jwks: " + tokenKeys + ", audiences: [[x]], fromHeaders: [{name: x}]}]}", `{"jwtRules":[{"fromHeaders":[{"name":"x"}]}]}`},
		"an unknown field":           {tokenHead + "spec: {jwtRules: [{issuer: a, jwks: " + tokenKeys + ", audience: [x]}]}", all},
		"a rule that is none":        {tokenHead + "spec: {jwtRules: [x, " + sound + "]}", all},
		"rules that are none":        {tokenHead + "spec: {jwtRules: x}", all},
		"a selector that is none":    {tokenHead + "spec: {selector: {matchLabels: {app: '*'}}, jwtRules: [" + sound + "]}", `{"jwtRules":[` + b + `]}`},
		"targets":                    {tokenHead + "spec: {targetRef: {kind: Service, name: a}, jwtRules: [" + sound + "]}", `{"jwtRules":[` + b + `]}`},
		"another word for the rules": {tokenHead + "spec: {rules: [" + sound + "]}", all},
		"another word for the spec":  {tokenHead + "spek: {jwtRules: [" + sound + "]}", all},
		"no object":                  {tokenHead + "spec: [1]", all},
		"a misspelt kind":            {strings.Replace(tokenHead, "RequestAuth", "RequestsAuth", 1) + "spec: {jwtRules: [" + sound + "]}", `{"jwtRules":[` + b + `]}`},
		"a prefix of two lines":      {tokenHead + `spec: {jwtRules: [{issuer: a, jwksUri: 'https://a.test', fromHeaders: [{name: x, prefix: "a\nb"}, {name: y, prefix: z}]}]}`, `{"jwtRules":[{"fromHeaders":[{"name":"x"},{"name":"y","prefix":"z"}]}]}`},
		"nobody has judged":          {tokenHead + "spec: {jwtRules: [{issuer: a, jwksUri: 'https://a.test', outputPayloadToHeader: ':path'}, " + sound + ", {issuer: c, jwks: 5}]}", `{"jwtRules":[{},` + b + `,{"issuer":"c","jwks":"{}"}]}`},
		"keys nobody has judged":     {tokenHead + "spec: {jwtRules: [{issuer: a, jwksUri: 'https://a.test', jwks: " + tokenKeys + "}, {issuer: c, jwks: 5}]}", `{"jwtRules":[{"issuer":"a","jwks":"{}"},{"issuer":"c","jwks":"{}"}]}`},
		"places nobody has judged":   {tokenHead + "spec: {jwtRules: [{issuer: a, jwksUri: 'https://a.test', fromHeaders: [{name: x}, {prefix: y}, {name: ':path'}]}, {issuer: c, jwks: 5}]}", `{"jwtRules":[{"fromHeaders":[{"name":"x"}]},{"issuer":"c","jwks":"{}"}]}`},
		"keys of an address":         {tokenHead + "spec: {jwtRules: [{issuer: 'https://a.test', jwks: '{}'}, {issuer: 'https://b.test', jwks: 5}]}", `{"jwtRules":[{"issuer":"https://a.test","jwks":"{}"},{"issuer":"https://b.test","jwks":"{}"}]}`},
		"an address of keys":         {tokenHead + "spec: {jwtRules: [{issuer: 'https://a.test'}, {issuer: b, jwks: x}]}", `{"jwtRules":[{"issuer":"https://a.test"},{"issuer":"b","jwks":"{}"}]}`},
		"two of keys":                {tokenHead + "spec: {jwtRules: [{issuer: a, jwksUri: 'https://a.test', jwks: " + tokenKeys + "}]}", `{"jwtRules":[{"issuer":"a","jwks":"{}"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			items := Read([]byte(test.text))
			o := items[0].Closed
			if o == nil || test.want == "" {
				if o != nil || test.want != "" {
					t.Fatalf("its closed form is %v, want %q, of %v", o, test.want, items[0].Problems)
				}
				return
			}
			text, err := protojson.Marshal(o.Spec.(*security.RequestAuthentication))
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if json.Unmarshal(text, &got) != nil || json.Unmarshal([]byte(test.want), &want) != nil {
				t.Fatal("no JSON")
			}
			x, _ := json.Marshal(got)
			y, _ := json.Marshal(want)
			if string(x) != string(y) || !o.Closed || o.Key() != "RequestAuthentication/shop/t" {
				t.Errorf("it is %s of %s, want %s", x, o.Key(), y)
			}
		})
	}
}
