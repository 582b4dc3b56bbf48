package config

import (
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Each field of MeshConfig is in the table: what is not served is ignored for a reason that the table gives.
func TestEveryMeshConfigFieldHasALine(t *testing.T) {
	entries := SupportOf("MeshConfig")
	fields := (&meshconfig.MeshConfig{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		name := fields.Get(i).JSONName()
		if _, found := entryOf(entries[:len(entries)-1], name); found || branches["MeshConfig"].below[name] != nil {
			continue
		}
		t.Errorf("%s has no line", name)
	}
}

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

func TestConfigSources(t *testing.T) {
	for _, test := range []struct{ name, sources, fault string }{
		{"all kinds", `[{address: "xds://pilot:15010"}, {address: "fs:///etc/mesh"}, {address: "k8s://"}]`, ""},
		{"over TLS", `[{address: "xds://[::1]:15012", tlsSettings: {mode: MUTUAL, clientCertificate: /c, privateKey: /k, caCertificates: /ca}}]`, ""},
		{"no port", `[{address: "xds://pilot"}]`, `configSources[0].address: is "xds://pilot", want xds://host:port`},
		{"a port that is none", `[{address: "xds://pilot:0"}]`, `want xds://host:port`},
		{"a path", `[{address: "xds://pilot:1/x"}]`, `want xds://host:port`},
		{"a password", `[{address: "xds://me:secret@pilot:1"}]`, `want xds://host:port, fs:///directory or k8s://`},
		{"two slashes", `[{address: "fs://etc/mesh"}]`, `want fs:///directory, with three slashes`},
		{"another scheme", `[{address: "http://pilot:1"}]`, `want xds://host:port, fs:///directory or k8s://`},
		{"no address", `[{}]`, `configSources[0].address: is ""`},
		{"twice", `[{address: "fs:///a"}, {address: "fs:///a"}]`, `configSources[1].address`},
		{"MUTUAL without files", `[{address: "xds://a:1", tlsSettings: {mode: MUTUAL}}]`, `configSources[0].tlsSettings: has mode MUTUAL, want the files`},
		{"ISTIO_MUTUAL", `[{address: "xds://a:1", tlsSettings: {mode: ISTIO_MUTUAL}}]`, `configSources[0].tlsSettings.mode: is ISTIO_MUTUAL`},
		{"TLS of files", `[{address: "fs:///a", tlsSettings: {mode: SIMPLE}}]`, `configSources[0].tlsSettings: is of fs:///a, ignored`},
		{"a secret's name", `[{address: "xds://a:1", tlsSettings: {mode: SIMPLE, credentialName: x}}]`, `tlsSettings.credentialName is not supported`},
		{"single types", `[{address: "xds://a:1", subscribedResources: [SERVICE_REGISTRY]}]`, `configSources[0].subscribedResources`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, problems := DecodeSettings("MeshConfig", "mesh.yaml", []byte("configSources: "+test.sources))
			var text []string
			for _, p := range problems {
				text = append(text, p.String())
			}
			got := strings.Join(text, "\n")
			if test.fault == "" && got != "" || !strings.Contains(got, test.fault) {
				t.Errorf("got %q, want %q", got, test.fault)
			}
		})
	}
	o, _ := DecodeSettings("MeshConfig", "mesh.yaml", []byte(`configSources: [{address: "fs:///a/../b"}, {address: "xds://pilot:15010", tlsSettings: {mode: SIMPLE}}]`))
	got := ConfigSources(o)
	if len(got) != 2 || got[0].Scheme != "fs" || got[0].Place != "/b" || got[1].Place != "pilot:15010" || got[1].TLS == nil {
		t.Errorf("got %+v", got)
	}
}
