package config

import (
	"strings"
	"testing"
)

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
