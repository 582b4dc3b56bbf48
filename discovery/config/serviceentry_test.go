package config

import "testing"

func TestServiceEntry(t *testing.T) {
	runRules(t, "ServiceEntry", map[string]ruleTest{
		"an address in two spellings": {`
			hosts: [a.test]
			addresses: ["2001:DB8::1", "2001:db8:0::0:1"]
			resolution: STATIC
			ports: [{number: 80, name: http, protocol: HTTP}]
			endpoints: [{address: 10.0.0.1}]
		`, []string{`2: error: spec.addresses[1]: is "2001:db8::1", which is there already`}},
		"sound": {spec: `
			hosts: [reviews.default.svc.cluster.local, "*.example.com"]
			location: MESH_INTERNAL
			resolution: STATIC
			ports:
			- {number: 80, name: http, protocol: http, targetPort: 8080}
			- {number: 443, name: grpc, protocol: GRPC, target_port: 8443}
			endpoints:
			- {address: 127.0.0.11, ports: {http: 9080}, labels: {version: v1, app.kubernetes.io/name: reviews}, weight: 2}
			- address: "fd00::1"
		`},
		"DNS resolves the host itself": {spec: `
			hosts: [example.com]
			resolution: DNS
			ports: [{number: 80, name: http, protocol: HTTP}]
		`},
		"nothing": {"{}", []string{
			"0: error: spec.hosts: is missing",
			"0: warning: spec.ports: is empty: nothing leads to the service",
		}},
		"everything wrong": {`
			hosts:
			- "*"
			- a_b.com
			- example.com
			- Example.COM
			- 10.0.0.1
			resolution: STATIC
			ports:
			- number: 0
			  name: http
			  protocol: SMTP
			- number: 70000
			  name: http
			  protocol: HTTP
			- number: 70000
			  targetPort: 65536
			endpoints:
			- address: example.com
			  ports: {http: 0, https: 443}
			- labels: {-a: b, c: "d e"}
		`, []string{
			`2: error: spec.hosts[0]: is "*", want the name of a host`,
			`3: error: spec.hosts[1]: is "a_b.com", want DNS labels of letters, digits and '-' between dots`,
			`5: error: spec.hosts[3]: is "example.com", which is there already`,
			`6: error: spec.hosts[4]: is "10.0.0.1", want DNS labels of letters, digits and '-' between dots`,
			`9: error: spec.ports[0].number: is 0, want a port, 1 to 65535`,
			`11: error: spec.ports[0].protocol: is "SMTP", want HTTP, HTTP2, GRPC, GRPC-WEB, HTTPS, TLS, TCP, MONGO, REDIS, MYSQL or UDP`,
			`12: error: spec.ports[1].number: is 70000, want a port, 1 to 65535`,
			`13: error: spec.ports[1].name: is "http", which is there already`,
			`15: error: spec.ports[2].number: is 70000, want a port, 1 to 65535`,
			`15: error: spec.ports[2].name: is missing`,
			`15: warning: spec.ports[2].protocol: is missing: the first bytes of each connection decide, and a server that speaks first is not found out; want HTTP, HTTP2, GRPC, TLS, TCP or another`,
			`15: error: spec.ports[2].number: is 70000, which is there already`,
			`16: error: spec.ports[2].targetPort: is 65536, want a port, 1 to 65535`,
			`18: error: spec.endpoints[0].address: is "example.com", want an IP address under resolution STATIC`,
			`19: error: spec.endpoints[0].ports.http: is 0, want a port, 1 to 65535`,
			`19: error: spec.endpoints[0].ports.https: is not the name of one of the service's ports`,
			`20: error: spec.endpoints[1].address: is missing`,
			`20: error: spec.endpoints[1].labels.-a: the label's name is "-a", want letters, digits, '-', '_' and '.', at most 63`,
			`20: error: spec.endpoints[1].labels.c: is "d e", want letters, digits, '-', '_' and '.', at most 63`,
		}},
		"a wildcard has no address": {`
			hosts: ["*.example.com"]
			resolution: DNS
			ports: [{number: 80, name: http, protocol: HTTP}]
		`, []string{
			`1: error: spec.hosts[0]: is "*.example.com": without endpoints the host is resolved, want a full name`,
		}},
		"resolutions": {`
			hosts: [a.example.com]
			addresses: [10.0.0.1, 10.0.0.0/8, example.com]
			resolution: NONE
			ports: [{number: 80, name: http, protocol: HTTP}]
			endpoints: [{address: 10.0.0.1}]
			workloadSelector: {labels: {a: b}}
			exportTo: [".", ".", "~", a.b]
		`, []string{
			`2: error: spec.addresses[2]: is "example.com", want an IP address, or a range such as 10.0.0.0/8`,
			`5: error: spec.endpoints: are given under resolution NONE, which connects to the address that was dialled`,
			`6: warning: spec.workloadSelector: is used by gateways and under interception NONE only: resolution NONE connects to the address that was dialled; want STATIC or DNS`,
			`6: error: spec.workloadSelector: is given beside endpoints, want one of them`,
			`7: error: spec.exportTo[1]: is ".", which is there already`,
			`7: error: spec.exportTo[2]: is "~", which exports to no namespace, beside others`,
			`7: error: spec.exportTo[3]: is "a.b", want letters, digits and '-', at most 63`,
		}},
		"one name for DNS_ROUND_ROBIN, no socket, and no identity": {`
			hosts: [a.example.com]
			resolution: DNS_ROUND_ROBIN
			ports: [{number: 80, name: http, protocol: HTTP}]
			endpoints:
			- {address: one.example.com, serviceAccount: a}
			- {address: unix:///a}
		`, []string{
			`4: error: spec.endpoints: are 2, want at most one under DNS_ROUND_ROBIN`,
			`6: error: spec.endpoints[1].address: is "unix:///a", which needs resolution STATIC`,
		}},
		"a dynamic name": {`
			hosts: ["*.example.com"]
			resolution: DYNAMIC_DNS
			ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]
		`, []string{
			`2: warning: spec.resolution: is DYNAMIC_DNS, which is served as NONE: the address that the client has resolved is dialled`,
		}},
		"a dynamic name is a wildcard outside of the mesh, and nothing else": {`
			hosts: ["*.example.com", a.example.com]
			location: MESH_INTERNAL
			addresses: [10.0.0.1]
			resolution: DYNAMIC_DNS
			ports: [{number: 80, name: http, protocol: GRPC}]
			endpoints: [{address: 10.0.0.1}]
		`, []string{
			`1: error: spec.hosts[1]: is "a.example.com", want a wildcard under resolution DYNAMIC_DNS`,
			`2: error: spec.location: is MESH_INTERNAL, want MESH_EXTERNAL under resolution DYNAMIC_DNS`,
			`3: error: spec.addresses: are given under resolution DYNAMIC_DNS, which has none`,
			`4: warning: spec.resolution: is DYNAMIC_DNS, which is served as NONE: the address that the client has resolved is dialled`,
			`5: error: spec.ports[0].protocol: is "GRPC", want HTTP or TLS under resolution DYNAMIC_DNS`,
			`6: error: spec.endpoints: are given under resolution DYNAMIC_DNS, which has none`,
		}},
		"no endpoints is a service that is down": {`
			hosts: [a.example.com]
			resolution: STATIC
			ports: [{number: 80, name: http, protocol: HTTP}]
		`, []string{`0: warning: spec.endpoints: is empty: every request is answered 503`}},
	})
}
