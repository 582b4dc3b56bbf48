package config

import "testing"

func TestVirtualService(t *testing.T) {
	runRules(t, "VirtualService", map[string]ruleTest{
		"sound": {spec: `
			hosts: [reviews, reviews.example.com, "*.example.com", 10.0.0.1]
			gateways: [mesh]
			http:
			- name: jason
			  match:
			  - uri: {prefix: /reviews}
			    headers:
			      end-user: {exact: jason}
			      present: {}
			      also-present: {regex: "*"}
			      id: {regex: "[0-9]+"}
			  route: [{destination: {host: reviews, subset: v2, port: {number: 9080}}, weight: 0}]
			  timeout: 500ms
			- route:
			  - {destination: {host: reviews, subset: v1}, weight: 80}
			  - {destination: {host: reviews, subset: v2}, weight: 20}
			  timeout: 0s
		`},
		"nothing": {"{}", []string{
			"0: error: spec.hosts: is missing",
			"0: error: spec: has no routes, want http",
		}},
		"everything wrong": {`
			hosts: ["*", a..b, x, X]
			http:
			- match:
			  - uri: {}
			    headers:
			      "a b": {exact: c}
			  - uri: {prefix: ""}
			  - uri: {regex: "["}
			- route:
			  - destination: {host: "*.com", subset: a.b}
			    weight: -1
			  - destination: {host: "", port: {}}
			    weight: 1
			- route:
			  - destination: {host: a}
			  - weight: 0
			  timeout: 1us
		`, []string{
			`1: error: spec.hosts[0]: is "*", want the name of a host`,
			`1: error: spec.hosts[1]: is "a..b", want DNS labels of letters, digits and '-' between dots`,
			`1: error: spec.hosts[3]: is "x", which is there already`,
			`3: error: spec.http[0].route: is missing`,
			`4: error: spec.http[0].match[0].uri: is empty, want exact, prefix or regex`,
			`6: error: spec.http[0].match[0].headers.a b: the header's name is "a b", want a token of HTTP`,
			`7: error: spec.http[0].match[1].uri.prefix: is missing`,
			"8: error: spec.http[0].match[2].uri.regex: is not a regular expression of RE2: " +
				"error parsing regexp: missing closing ]: `[`",
			`9: error: spec.http[1].route: the weights add up to 0, want more`,
			`10: error: spec.http[1].route[0].destination.host: is "*.com", want a name without a wildcard`,
			`10: error: spec.http[1].route[0].destination.subset: is "a.b", want letters, digits and '-', at most 63`,
			`11: error: spec.http[1].route[0].weight: is -1, want 0 or more`,
			`12: error: spec.http[1].route[1].destination.host: is missing`,
			`12: error: spec.http[1].route[1].destination.port.number: is 0, want a port, 1 to 65535`,
			`14: error: spec.http[2].route: the weights add up to 0, want more`,
			`16: error: spec.http[2].route[1].destination.host: is missing`,
			`17: error: spec.http[2].timeout: is 1µs, want whole milliseconds, or 0s for none`,
		}},
		"not supported": {`
			hosts: [reviews]
			gateways: [mesh, ingress]
			tcp: [{route: [{destination: {host: reviews}}]}]
			http:
			- route: [{destination: {host: reviews}, headers: {request: {remove: [a]}}}]
			  fault: {abort: {httpStatus: 500}}
			  retries: {attempts: 3}
		`, []string{
			`2: warning: spec.gateways[1]: gateway "ingress" is not supported, ignored`,
			`3: warning: spec.tcp: VirtualService.tcp is not supported, ignored`,
			`5: warning: spec.http[0].route[0].headers: VirtualService.http.route.headers is not supported, ignored`,
			`6: warning: spec.http[0].fault: VirtualService.http.fault is not supported, ignored`,
			`7: warning: spec.http[0].retries: VirtualService.http.retries is not supported, ignored`,
		}},
		"a condition that is ignored would widen the match": {`
			hosts: [reviews]
			http:
			- match: [{uri: {exact: /a}, method: {exact: GET}}]
			  route: [{destination: {host: reviews}}]
		`, []string{
			`3: error: spec.http[0].match[0].method: VirtualService.http.match.method is not supported; ` +
				`without it the object would apply to more than it says`,
		}},
		"for gateways alone": {`
			hosts: [reviews]
			gateways: [ingress]
			http: [{route: [{destination: {host: reviews}}]}]
		`, []string{
			`2: warning: spec.gateways: is ingress: gateways are not supported, ` +
				`and without "mesh" the object says nothing to sidecars, ignored`,
		}},
	})
}
