package config

import (
	"slices"
	"testing"
)

func TestGateway(t *testing.T) {
	runRules(t, "Gateway", map[string]ruleTest{
		"sound": {spec: `
			selector: {istio: ingressgateway}
			servers:
			- {port: {number: 80, name: http, protocol: HTTP}, hosts: ["*", "./a.com", "ns/*.a.com"], tls: {httpsRedirect: true}}
			- {port: {number: 443, name: https, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: a}}
			- {port: {number: 15443, name: tls, protocol: TLS}, hosts: ["*.local"], tls: {mode: AUTO_PASSTHROUGH}}
		`},
		"nothing": {"{}", []string{"0: error: spec.servers: is missing"}},
		"a certificate of another server": {`
			servers:
			- {port: {number: 446, name: sds, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: "sds://a"}}
			- {port: {number: 447, name: lent, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: "destination-rule://shop/a"}}
		`, []string{
			`2: warning: spec.servers[0].tls.credentialName: is "sds://a", for a server of secrets beside the proxy, of which discovery knows nothing: the secret never comes, and connections are closed; want the name of a secret, or certificates in files`,
			`3: error: spec.servers[1].tls.credentialName: is "destination-rule://shop/a", want the name of a secret of the proxies' namespace`,
		}},
		"a certificate of an issuer": {`
			servers:
			- {port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.com, ./b.com], tls: {mode: SIMPLE, credentialName: "acme://lets-1"}}
			- {port: {number: 443, name: b, protocol: HTTPS}, hosts: ["*.a.com", 10.0.0.1, "*"], tls: {mode: SIMPLE, credentialName: "acme://lets"}}
			- {port: {number: 443, name: c, protocol: HTTPS}, hosts: [c.com], tls: {mode: SIMPLE, credentialName: "acme://lets/bank/gw/https"}}
			- {port: {number: 443, name: d, protocol: HTTPS}, hosts: [d.com], tls: {mode: SIMPLE, credentialNames: [a, "acme://lets"]}}
			- {port: {number: 443, name: e, protocol: HTTPS}, hosts: [e.com], tls: {mode: MUTUAL, credentialName: "acme://lets"}}
			- {port: {number: 443, name: f, protocol: HTTPS}, hosts: [f.com], tls: {mode: MUTUAL, credentialName: "acme://lets", caCertCredentialName: roots}}
		`, []string{
			`3: error: spec.servers[1].hosts[0]: is "*.a.com" under credentialName acme://lets, whose issuer proves names one by one: want a whole name, or another certificate`,
			`3: error: spec.servers[1].hosts[1]: is "10.0.0.1" under credentialName acme://lets, whose issuer proves names one by one: want a whole name, or another certificate`,
			`3: error: spec.servers[1].hosts[2]: is "*" under credentialName acme://lets, whose issuer proves names one by one: want a whole name, or another certificate`,
			`4: error: spec.servers[2].tls.credentialName: is "acme://lets/bank/gw/https", want acme://NAME with the name of an issuer: small letters, digits and -`,
			`5: error: spec.servers[3].tls.credentialNames[1]: is "acme://lets", which names an issuer of certificates: want that in credentialName of a Gateway's server alone`,
			`6: error: spec.servers[4].tls.caCertCredentialName: is missing: mode MUTUAL needs the roots of clients, which an issuer does not give`,
		}},
		"an Ingress' certificate": {`
			servers:
			- {port: {number: 443, name: https, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: "kubernetes-ingress://shop/a"}}
			- {port: {number: 444, name: more, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialNames: [a, "kubernetes-ingress://shop/a"]}}
			- {port: {number: 445, name: ca, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialName: a, caCertCredentialName: "kubernetes-ingress://shop/a"}}
		`, []string{
			`2: error: spec.servers[0].tls.credentialName: is "kubernetes-ingress://shop/a", which is for Ingress objects alone: want the name of a secret of the proxies' namespace`,
			`3: error: spec.servers[1].tls.credentialNames[1]: is "kubernetes-ingress://shop/a", which is for Ingress objects alone: want the name of a secret of the proxies' namespace`,
			`4: error: spec.servers[2].tls.caCertCredentialName: is "kubernetes-ingress://shop/a", which is for Ingress objects alone: want the name of a secret of the proxies' namespace`,
		}},
		"everything wrong": {`
			servers:
			- {hosts: [a.com]}
			- {port: {number: 0, name: a, protocol: SMTP}, bind: a}
			- {port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.com]}
			- {port: {number: 443, name: b, protocol: HTTPS}, hosts: [a..com], tls: {httpsRedirect: true, mode: SIMPLE}}
			- {port: {number: 444, name: c, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, serverCertificate: /a, privateKey: /b}}
			- {port: {number: 445, name: d, protocol: TLS}, hosts: [a.com], tls: {mode: PASSTHROUGH, credentialName: a}}
			- {port: {number: 446, name: e, protocol: TCP}, hosts: [a.com], tls: {mode: SIMPLE}}
			- {port: {number: 447, name: f, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: a, privateKey: /b, minProtocolVersion: TLSV1_3, maxProtocolVersion: TLSV1_2, cipherSuites: [AES128-GCM-SHA255], verifyCertificateHash: [ab]}}
			- {port: {number: 53, name: g, protocol: UDP}, hosts: [a.com]}
		`, []string{
			`2: error: spec.servers[0].port: is missing`,
			`3: error: spec.servers[1].bind: is "a", want an IP address`,
			`3: error: spec.servers[1].port.number: is 0, want a port, 1 to 65535`,
			`3: error: spec.servers[1].port.protocol: is "SMTP", want HTTP, HTTP2, GRPC, GRPC-WEB, HTTPS, TLS, TCP, MONGO, REDIS, MYSQL or UDP`,
			`3: error: spec.servers[1].hosts: is missing`,
			`4: error: spec.servers[2].tls: is missing under protocol HTTPS`,
			`4: error: spec.servers[2].port.name: is "a", which is there already`,
			`5: error: spec.servers[3].hosts[0]: is "a..com", want DNS labels of letters, digits and '-' between dots`,
			`5: warning: spec.servers[3].tls.httpsRedirect: is not used under protocol HTTPS: want it at a server of protocol HTTP`,
			`5: error: spec.servers[3].tls.serverCertificate: is missing`,
			`5: error: spec.servers[3].tls.privateKey: is missing`,
			`6: error: spec.servers[4].tls.caCertificates: is missing`,
			`7: warning: spec.servers[5].tls: names a certificate under PASSTHROUGH, which does not use it`,
			`8: error: spec.servers[6].tls: is given under protocol TCP, want TLS or HTTPS`,
			`9: warning: spec.servers[7].tls: names a file beside a credential, which is used in its place`,
			`9: error: spec.servers[7].tls.minProtocolVersion: is TLSV1_3, which is above maxProtocolVersion TLSV1_2`,
			`9: error: spec.servers[7].tls.verifyCertificateHash[0]: is "ab", want the hexadecimal of a SHA-256`,
			`9: warning: spec.servers[7].tls.cipherSuites[0]: is "AES128-GCM-SHA255", ignored, did you mean "AES128-GCM-SHA256"?`,
			`10: error: spec.servers[8].port.protocol: is UDP, which gateways do not take`,
		}},
	})
}

func TestWorkloadEntry(t *testing.T) {
	runRules(t, "WorkloadEntry", map[string]ruleTest{
		"sound":    {spec: "address: 10.0.0.1\nports: {http: 8080}\nlabels: {app: a}\nlocality: a/b/c\nweight: 3"},
		"a socket": {spec: "address: unix:///run/app.sock"},
		"a network": {"network: n1", []string{
			`0: warning: spec.address: is missing: only proxies of other networks reach the endpoint, by the gateways of network "n1"`,
		}},
		"nothing":     {"{}", []string{"0: error: spec.address: is missing"}},
		"a directory": {"address: unix:///run/", []string{`1: error: spec.address: is "/run/", want an absolute path of at most 107 bytes after unix://, or @NAME`}},
		"everything wrong": {"address: a..b\nports: {http: 0}\nlabels: {-a: b}", []string{
			`1: error: spec.address: is "a..b", want DNS labels of letters, digits and '-' between dots`,
			`2: error: spec.ports.http: is 0, want a port, 1 to 65535`,
			`3: error: spec.labels.-a: the label's name is "-a", want letters, digits, '-', '_' and '.', at most 63`,
		}},
	})
}

// The mesh's settings have no envelope; their problems are reported in the same way.
func TestDecodeSettings(t *testing.T) {
	for text, want := range map[string]string{
		"accessLogFiles: a":                                                                                         `f:1: error: MeshConfig: accessLogFiles: unknown field "accessLogFiles", did you mean "accessLogFile"?`,
		"accessLogFile: a\nconnectTimeout: 0s":                                                                      "f:2: error: MeshConfig: connectTimeout: is 0s, want at least 1ms, in whole milliseconds",
		"defaultProviders: {tracing: [a]}":                                                                          `f:1: error: MeshConfig: defaultProviders.tracing[0]: is "a", which no extension provider is`,
		"certificates: [{secretName: a}]":                                                                           "f:1: warning: MeshConfig: certificates: MeshConfig.certificates is not supported, ignored: no effect, as in Istio",
		"accessLogFile: /var/log/":                                                                                  `f:1: error: MeshConfig: accessLogFile: is "/var/log/", want a file`,
		"extensionProviders: [{name: a, envoyFileAccessLog: {path: /}}]":                                            `f:1: error: MeshConfig: extensionProviders[0].envoyFileAccessLog.path: is "/", want a file`,
		"defaultConfig: {tracing: {sampling: 101}}":                                                                 "f:1: error: MeshConfig: defaultConfig.tracing.sampling: is 101, want 0 to 100",
		"defaultConfig: {discoveryAddress: pilot}":                                                                  `f:1: error: MeshConfig: defaultConfig.discoveryAddress: is "pilot", want host:port`,
		"defaultConfig: {tracing: {zipkin: {address: \"a:0\"}}}":                                                    `f:1: error: MeshConfig: defaultConfig.tracing.zipkin.address: is "a:0", want host:port`,
		"defaultConfig: {drainDuration: 0.5s, discoveryAddress: \"[::1]:1\"}":                                       `f:1: error: MeshConfig: defaultConfig.drainDuration: is 500ms, want whole seconds, 1s to 1h`,
		"defaultConfig: {statusPort: 70000}":                                                                        `f:1: error: MeshConfig: defaultConfig.statusPort: is 70000, want a port, 1 to 65535`,
		"defaultConfig: {proxyMetadata: {1A: b}}":                                                                   `f:1: error: MeshConfig: defaultConfig.proxyMetadata.1A: the variable's name is "1A", want letters, digits, '_', '-' and '.', no digit first`,
		"defaultConfig: {proxyMetadata: {LD_PRELOAD: b}}":                                                           `f:1: warning: MeshConfig: defaultConfig.proxyMetadata.LD_PRELOAD: is set by the injector, ignored for Pods that are injected`,
		"defaultConfig: {tracing: {customTags: {a: {}}, sampling: 3}}":                                              `f:1: warning: MeshConfig: defaultConfig.tracing.customTags: MeshConfig.defaultConfig.tracing.customTags is not supported, ignored: not read`,
		"accessLogFormat: \"%BOGUS%\"":                                                                              `f:1: error: MeshConfig: accessLogFormat: has the command %BOGUS%, which is not one of those that objects may have`,
		"accessLogEncoding: JSON\naccessLogFormat: '{\"a\": {\"b\": \"%PROTOCOL:5%\"}}'":                            `f:2: error: MeshConfig: accessLogFormat.a.b: has the command %PROTOCOL:5%, want it without :5: it takes no length`,
		"extensionProviders: [{name: a, envoyFileAccessLog: {path: /a, logFormat: {labels: {a: \"%REQ(a b)%\"}}}}]": `f:1: error: MeshConfig: extensionProviders[0].envoyFileAccessLog.logFormat.labels.a: has the command %REQ(a b)%, whose argument is not right`,
		"extensionProviders: [{name: a, envoyFileAccessLog: {path: /a, logFormat: {text: \"50%\"}}}]":               `f:1: error: MeshConfig: extensionProviders[0].envoyFileAccessLog.logFormat.text: is "50%", want %% for a percent sign`,
		"a: [": "f:1: error: MeshConfig: did not find expected node content",
	} {
		_, problems := DecodeSettings("MeshConfig", "f", []byte(text))
		if len(problems) != 1 || problems[0].String() != want {
			t.Errorf("%q: got %v, want %s", text, problems, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	for text, want := range map[string][]string{
		`{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: a}, spec: {servers: [
  {port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: b}},
  {port: {number: 444, name: b, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialNames: [b, a], caCertCredentialName: c}},
  {port: {number: 80, name: c, protocol: HTTP}, hosts: [a.com]}]}}`: {"a", "b", "c"},
		`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a}, spec: {host: a, trafficPolicy: {tls: {mode: SIMPLE, credentialName: b}}}}`: nil,
	} {
		for _, item := range Read([]byte(text)) {
			if item.Object == nil {
				t.Fatal(item.Problems)
			}
			if got := Credentials(item.Object); !slices.Equal(got, want) {
				t.Errorf("%s names %q, want %q", item.Key, got, want)
			}
		}
	}
}
