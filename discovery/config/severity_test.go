package config

import (
	"slices"
	"strings"
	"testing"
)

// An object is refused for what Envoy would refuse, what is unsafe, and what Istio refuses. What Istio warns of and leaves
// out is warned of and left out: one field does not cost a whole object.
func TestSeverity(t *testing.T) {
	server := func(s string) string { return "servers: [" + s + "]" }
	https := func(tls string) string {
		return server("{port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.com], tls: " + tls + "}")
	}
	entry := func(s string) string {
		return "hosts: [a.com]\nports: [{number: 80, name: http, protocol: HTTP}]\n" + s
	}
	http := func(s string) string { return "hosts: [a.com]\nhttp: [" + s + "]" }
	const route = "route: [{destination: {host: a}}]"
	for name, test := range map[string]struct {
		kind, spec string
		want       []string // the severity and the path of each problem
	}{
		"httpsRedirect beside TLS": {"Gateway", https("{httpsRedirect: true}"), []string{"warning: spec.servers[0].tls.httpsRedirect"}},
		"TLS under HTTP":           {"Gateway", server("{port: {number: 80, name: a, protocol: HTTP}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: a}}"), []string{"error: spec.servers[0].tls"}},
		"an address as a host":     {"Gateway", server("{port: {number: 80, name: a, protocol: HTTP}, hosts: [10.0.0.1, 'ns/::1']}"), nil},
		"half a label":             {"Gateway", server("{port: {number: 80, name: a, protocol: HTTP}, hosts: ['*a.com', 'ns/*-a.com']}"), []string{"error: spec.servers[0].hosts[0]", "error: spec.servers[0].hosts[1]"}},
		"credential, and a key":    {"Gateway", https("{mode: SIMPLE, credentialName: a, privateKey: /b}"), []string{"warning: spec.servers[0].tls"}},
		"credential, and a pair":   {"Gateway", https("{mode: SIMPLE, credentialName: a, privateKey: /b, serverCertificate: /c}"), []string{"error: spec.servers[0].tls"}},
		"two kinds of files":       {"Gateway", https("{mode: SIMPLE, privateKey: /b, serverCertificate: /c, tlsCertificates: [{privateKey: /b, serverCertificate: /c}]}"), []string{"error: spec.servers[0].tls.tlsCertificates"}},
		"a certificate passed":     {"Gateway", https("{mode: PASSTHROUGH, credentialName: a}"), []string{"warning: spec.servers[0].tls"}},
		"a CRL passed":             {"Gateway", https("{mode: PASSTHROUGH, caCrl: /a}"), []string{"warning: spec.servers[0].tls"}},
		"roots of the mesh's own":  {"Gateway", https("{mode: ISTIO_MUTUAL, caCertificates: /a}"), []string{"error: spec.servers[0].tls"}},
		"cipher suites": {
			"Gateway", https("{mode: SIMPLE, credentialName: a, cipherSuites: [AES128-SHA, AES128-SHA, -AES256-SHA, RC4-SHA]}"),
			[]string{"warning: spec.servers[0].tls.cipherSuites[1]", "warning: spec.servers[0].tls.cipherSuites[2]", "warning: spec.servers[0].tls.cipherSuites[3]"},
		},
		"a port at a socket": {"Gateway", server("{port: {number: 80, name: a, protocol: HTTP}, bind: 'unix:///a', hosts: [a.com]}"), []string{"warning: spec.servers[0].port.number"}},

		"an endpoint behind a network":   {"ServiceEntry", entry("resolution: STATIC\nendpoints: [{network: a}]"), []string{"warning: spec.endpoints[0].address"}},
		"an endpoint of nothing":         {"ServiceEntry", entry("resolution: STATIC\nendpoints: [{labels: {a: b}}]"), []string{"error: spec.endpoints[0].address"}},
		"exported to all and one":        {"ServiceEntry", entry("exportTo: ['*', a]"), []string{"error: spec.exportTo[0]"}},
		"exported to its own, twice":     {"ServiceEntry", entry("exportTo: [., default]"), []string{"warning: spec.exportTo[1]"}},
		"a selector of nothing":          {"ServiceEntry", entry("resolution: STATIC\nworkloadSelector: {}"), []string{"warning: spec.workloadSelector"}},
		"a selector under NONE":          {"ServiceEntry", entry("workloadSelector: {labels: {a: b}}"), []string{"warning: spec.workloadSelector"}},
		"half a label of a ServiceEntry": {"ServiceEntry", "hosts: ['*a.com']\nports: [{number: 80, name: http, protocol: HTTP}]", []string{"warning: spec.hosts[0]"}},
		"hosts of one address":           {"ServiceEntry", "hosts: [a.com, b.com]\naddresses: [10.0.0.1]\nports: [{number: 443, name: tls, protocol: TLS}]", []string{"warning: spec.hosts"}},

		"a server of the mesh":       {"VirtualService", "hosts: [outbound_.15010_._.a.b.svc.cluster.local]\ngateways: [g]\ntls: [{match: [{sniHosts: [outbound_.15010_._.a.b.svc.cluster.local]}], " + route + "}]", nil},
		"an underscore":              {"VirtualService", "hosts: [a_b.com]\nhttp: [{" + route + "}]", []string{"error: spec.hosts[0]"}},
		"an address as SNI":          {"VirtualService", "hosts: [a.com]\ntls: [{match: [{sniHosts: [10.0.0.1]}], " + route + "}]", []string{"warning: spec.tls[0].match[0].sniHosts[0]"}},
		"an empty prefix":            {"VirtualService", http("{match: [{uri: {prefix: ''}}], " + route + "}"), nil},
		"an empty prefix of another": {"VirtualService", http("{match: [{method: {prefix: ''}}], " + route + "}"), []string{"error: spec.http[0].match[0].method.prefix"}},
		"an old gateway's name":      {"VirtualService", "hosts: [a.com]\ngateways: [g.ns]\nhttp: [{" + route + "}]", []string{"warning: spec.gateways[0]"}},
		"the host, twice":            {"VirtualService", http("{rewrite: {authority: a}, headers: {request: {set: {Host: b}}}, " + route + "}"), []string{"error: spec.http[0].headers.request.set.Host"}},
		"percentages":                {"VirtualService", http("{route: [{destination: {host: a}, weight: 90}, {destination: {host: b}, weight: 20}]}"), []string{"warning: spec.http[0].route"}},
		"a ratio":                    {"VirtualService", http("{route: [{destination: {host: a}, weight: 3}, {destination: {host: b}, weight: 1}]}"), nil},
		"a prefix of a prefix":       {"VirtualService", http("{match: [{uri: {prefix: /a}}], " + route + "}, {match: [{uri: {prefix: /ab}, method: {exact: GET}}, {uri: {exact: /a}}, {uri: {prefix: /b}}], " + route + "}"), []string{"warning: spec.http[1].match[0]", "warning: spec.http[1].match[1]"}},
		"no prefix of another case":  {"VirtualService", http("{match: [{uri: {prefix: /a}, ignoreUriCase: true}], " + route + "}, {match: [{uri: {prefix: /a}}], " + route + "}"), nil},
		"a prefix with a condition":  {"VirtualService", http("{match: [{uri: {prefix: /a}, method: {exact: GET}}], " + route + "}, {match: [{uri: {prefix: /a}}], " + route + "}"), nil},
		"a match twice":              {"VirtualService", http("{match: [{name: x, headers: {a: {exact: b}}}], " + route + "}, {match: [{name: y, headers: {a: {exact: b}}}], " + route + "}"), []string{"warning: spec.http[1].match[0]"}},
		"a header of HTTP/2's own":   {"VirtualService", http("{corsPolicy: {allowHeaders: [':path']}, " + route + "}"), []string{"error: spec.http[0].corsPolicy.allowHeaders[0]"}},

		"roots that nobody reads":        {"DestinationRule", "host: a\ntrafficPolicy: {tls: {mode: SIMPLE, insecureSkipVerify: true, caCertificates: /a, subjectAltNames: [b]}}", []string{"error: spec.trafficPolicy.tls.caCertificates", "error: spec.trafficPolicy.tls.subjectAltNames"}},
		"a credential that nobody reads": {"DestinationRule", "host: a\ntrafficPolicy: {tls: {mode: SIMPLE, insecureSkipVerify: true, credentialName: b}}", []string{"error: spec.trafficPolicy.tls.credentialName"}},
		"one's own credential":           {"DestinationRule", "host: a\ntrafficPolicy: {tls: {mode: MUTUAL, insecureSkipVerify: true, credentialName: b}}", nil},
		"a cookie's attribute, twice":    {"DestinationRule", "host: a\ntrafficPolicy: {loadBalancer: {consistentHash: {httpCookie: {name: a, ttl: 0s, attributes: [{name: A, value: b}, {name: A, value: c}]}}}}", []string{"error: spec.trafficPolicy.loadBalancer.consistentHash.httpCookie.attributes[1].name"}},
		"an empty policy":                {"DestinationRule", "host: a\ntrafficPolicy: {}", []string{"warning: spec.trafficPolicy"}},
		"a selector, and all":            {"DestinationRule", "host: a\nexportTo: [., b]\nworkloadSelector: {matchLabels: {a: b}}", []string{"error: spec.exportTo[1]"}},

		"half a label of a Sidecar":       {"Sidecar", "egress: [{hosts: ['./*a.com']}]", []string{"error: spec.egress[0].hosts[0]"}},
		"a host beside all":               {"Sidecar", "egress: [{hosts: ['*/*', 'a/b.com']}]", []string{"warning: spec.egress[0].hosts[1]"}},
		"a host of its own, twice":        {"Sidecar", "egress: [{hosts: ['./*', 'default/b.com']}]", []string{"warning: spec.egress[0].hosts[1]"}},
		"no namespace":                    {"Sidecar", "egress: [{hosts: ['~ns/*']}]", []string{"warning: spec.egress[0].hosts[0]"}},
		"a credential of a sidecar":       {"Sidecar", "ingress: [{port: {number: 443, name: a, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: a}}]", []string{"error: spec.ingress[0].tls"}},
		"HTTP's settings of another port": {"Sidecar", "ingress: [{port: {number: 80, name: a, protocol: TCP}, connectionPool: {http: {maxRetries: 1}}}]", []string{"warning: spec.ingress[0].connectionPool.http"}},
		"a probe of nothing":              {"WorkloadGroup", "template: {}\nprobe: {}", []string{"error: spec.probe"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Decode("f", []byte("apiVersion: networking.istio.io/v1\nkind: "+test.kind+"\nmetadata: {name: a}\nspec:\n  "+strings.ReplaceAll(test.spec, "\n", "\n  ")))
			var got []string
			for _, p := range problems {
				if !strings.Contains(p.Message, "is not supported, ignored") {
					got = append(got, string(p.Severity)+": "+p.Path)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", problems, test.want)
			}
		})
	}
}
