package config

import (
	"strings"
	"testing"
)

// What a CUSTOM policy may have.
func TestCustomPolicy(t *testing.T) {
	const why, whyKey = "is about the client's identity or token, which CUSTOM does not take: want ipBlocks or remoteIpBlocks, or leave it to the provider", ", about the client's identity or token, which CUSTOM does not take: leave it to the provider"
	for spec, want := range map[string]string{
		`action: CUSTOM, provider: {name: a}, rules: [{from: [{source: {ipBlocks: [10.0.0.0/8]}}], when: [{key: source.ip, values: [10.0.0.1]}]}]`: "",
		`action: CUSTOM, rules: [{}]`:                                  "spec.provider.name: is missing: want the name of an extension provider of MeshConfig, which is asked",
		`action: CUSTOM, provider: {name: a}`:                          "spec.rules: is missing, and CUSTOM without rules would concern nothing",
		`action: DENY, provider: {name: a}, rules: [{}]`:               "spec.provider: is given under action DENY",
		custom(`from: [{source: {principals: [td/ns/a/sa/b]}}]`):       "spec.rules[0].from[0].source.principals: " + why,
		custom(`from: [{source: {notRequestPrincipals: [a]}}]`):        "spec.rules[0].from[0].source.notRequestPrincipals: " + why,
		custom(`from: [{source: {trustDomains: [a]}}]`):                "spec.rules[0].from[0].source.trustDomains: " + why,
		custom(`when: [{key: "request.auth.claims[a]", values: [b]}]`): "spec.rules[0].when[0].key: is request.auth.claims[a]" + whyKey,
		custom(`when: [{key: source.namespace, notValues: [b]}]`):      "spec.rules[0].when[0].key: is source.namespace" + whyKey,
	} {
		_, problems := Decode("f", []byte("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: n}\nspec: {"+spec+"}"))
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if text := strings.Join(got, "; "); want == "" && text != "" || !strings.Contains(text, want) || len(got) > 1 {
			t.Errorf("%s: %q, want %q", spec, text, want)
		}
	}
}

func custom(rule string) string {
	return "action: CUSTOM, provider: {name: a}, rules: [{" + rule + "}]"
}

// What a provider for authorization may have.
func TestAuthorizers(t *testing.T) {
	for provider, want := range map[string]string{
		"envoyExtAuthzHttp: {service: a.test, port: 80}":                                                                "",
		"envoyExtAuthzGrpc: {service: shop/a, port: 80, statusOnError: '503', timeout: 1s}":                             "",
		"envoyExtAuthzHttp: {service: a.test}":                                                                          "envoyExtAuthzHttp.port: is 0",
		"envoyExtAuthzHttp: {port: 80}":                                                                                 "envoyExtAuthzHttp.service: is missing",
		"envoyExtAuthzHttp: {service: A_/a.test, port: 80}":                                                             `envoyExtAuthzHttp.service: is "A_"`,
		"envoyExtAuthzGrpc: {service: a/b/c, port: 80}":                                                                 `envoyExtAuthzGrpc.service: is "b/c"`,
		"envoyExtAuthzGrpc: {service: a.test, port: 80, statusOnError: '200'}":                                          `statusOnError: is "200", want a status of an error`,
		"envoyExtAuthzGrpc: {service: a.test, port: 80, statusOnError: '451'}":                                          `statusOnError: is "451"`,
		"envoyExtAuthzGrpc: {service: a.test, port: 80, timeout: 0s}":                                                   "timeout: is 0s",
		"envoyExtAuthzGrpc: {service: a.test, port: 80, includeRequestBodyInCheck: {packAsBytes: true}}":                "maxRequestBytes: is 0",
		"envoyExtAuthzHttp: {service: a.test, port: 80, pathPrefix: check}":                                             `pathPrefix: is "check", want / before it`,
		"envoyExtAuthzHttp: {service: a.test, port: 80, includeRequestHeadersInCheck: ['*']}":                           `includeRequestHeadersInCheck[0]: is "*"`,
		"envoyExtAuthzHttp: {service: a.test, port: 80, headersToUpstreamOnAllow: [a, 'x*y']}":                          `headersToUpstreamOnAllow[1]: is "x*y"`,
		"envoyExtAuthzHttp: {service: a.test, port: 80, headersToDownstreamOnDeny: [':status']}":                        `headersToDownstreamOnDeny[0]: is ":status"`,
		"envoyExtAuthzHttp: {service: a.test, port: 80, headersToDownstreamOnAllow: ['']}":                              `headersToDownstreamOnAllow[0]: is ""`,
		"envoyExtAuthzHttp: {service: a.test, port: 80, includeAdditionalHeadersInCheck: {'a b': c}}":                   `includeAdditionalHeadersInCheck["a b"]: is "a b"`,
		"envoyExtAuthzHttp: {service: a.test, port: 80, includeAdditionalHeadersInCheck: {a: \"c\\nd\"}}":               `includeAdditionalHeadersInCheck.a: is "c\nd", want text on one line`,
		"envoyExtAuthzHttp: {service: a.test, port: 80, includeHeadersInCheck: [a], includeRequestHeadersInCheck: [b]}": "includeHeadersInCheck: is ignored beside includeRequestHeadersInCheck",
	} {
		_, problems := DecodeSettings("MeshConfig", "f", []byte("extensionProviders: [{name: a, "+provider+"}]"))
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if text := strings.Join(got, "; "); want == "" && text != "" || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", provider, text, want)
		}
	}
}
