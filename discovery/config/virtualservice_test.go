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
			  - {destination: {host: "*.example.com", subset: v1}, weight: 80}
			  - {destination: {host: reviews, subset: v2}, weight: 20}
			  timeout: 0s
		`},
		"a regular expression that Envoy refuses": {`
			hosts: [a]
			http:
			- match:
			  - uri: {regex: "(/[^/]{1000}){2}"}
			  - uri: {regex: "\\p{Letter}+"}
			  - uri: {regex: "[\\x{100}-\\x{200}]"}
			  - uri: {regex: "([\\pL\\pN]{1000})([\\pL\\pN]{1000})([\\pL\\pN]{1000})([\\pL\\pN]{1000})"}
			  directResponse: {status: 200}
		`, []string{
			"4: error: spec.http[0].match[0].uri.regex: is not a regular expression of RE2: error parsing regexp: invalid repeat count: `{2}`",
			`5: error: spec.http[0].match[1].uri.regex: is not a regular expression of Envoy's RE2: \p{Letter} names no class: ` +
				`want a category such as \p{Lu}, or a script such as \p{Greek}`,
			`6: error: spec.http[0].match[2].uri.regex: is not a regular expression of Envoy's RE2: \x{100} is more than a byte, ` +
				`and Envoy matches bytes: want the character itself`,
			`7: error: spec.http[0].match[3].uri.regex: is a regular expression of size 44014 or so, want at most 32768: repeat less`,
		}},
		"nothing": {"{}", []string{
			"0: error: spec.hosts: is missing",
			"0: error: spec: has no routes, want http, tls or tcp",
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
			  - destination: {host: "*", subset: a.b}
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
			`6: error: spec.http[0].match[0].headers["a b"]: the header's name is "a b", want a token of HTTP`,
			"8: error: spec.http[0].match[2].uri.regex: is not a regular expression of RE2: " +
				"error parsing regexp: missing closing ]: `[`",
			`9: error: spec.http[1].route: the weights add up to 0, want more`,
			`10: error: spec.http[1].route[0].destination.host: is "*", want the name of a host`,
			`10: error: spec.http[1].route[0].destination.subset: is "a.b", want letters, digits and '-', at most 63`,
			`11: error: spec.http[1].route[0].weight: is -1, want 0 or more`,
			`12: error: spec.http[1].route[1].destination.host: is missing`,
			`12: error: spec.http[1].route[1].destination.port.number: is 0, want a port, 1 to 65535`,
			`14: error: spec.http[2].route: the weights add up to 0, want more`,
			`14: warning: spec.http[2]: is never reached: http[1] takes every request`,
			`16: error: spec.http[2].route[1].destination.host: is missing`,
			`17: error: spec.http[2].timeout: is 1µs, want whole milliseconds, or 0s for none`,
		}},
		"what is never reached": {`
			hosts: [reviews]
			gateways: [g.edge, mesh]
			http:
			- match: [{uri: {prefix: /a}, method: {exact: GET}}]
			  route: [{destination: {host: a}}]
			- match: [{uri: {prefix: /ab}, method: {exact: GET}}, {uri: {prefix: /ab}, method: {exact: POST}}, {uri: {exact: /ac}, method: {exact: GET}, name: x}, {uri: {prefix: /b}, method: {exact: GET}}]
			  route: [{destination: {host: a}}]
			- match: [{uri: {prefix: /ab/c}, ignoreUriCase: true, method: {exact: POST}}, {uri: {prefix: /ab/c}, method: {exact: POST}}]
			  route: [{destination: {host: a}}]
			tls:
			- match: [{sniHosts: [reviews], port: 1}]
			  route: [{destination: {host: a}}]
			- match: [{sniHosts: [reviews], port: 2}, {sniHosts: [reviews], port: 1}]
			  route: [{destination: {host: a}}]
			tcp:
			- match: [{port: 1}]
			  route: [{destination: {host: a}}]
			- match: [{port: 1}, {port: 2}]
			  route: [{destination: {host: a}}]
			- route: [{destination: {host: a}}]
			- match: [{port: 3}]
			  route: [{destination: {host: a}}]
		`, []string{
			`2: warning: spec.gateways[0]: is "g.edge", the old form of edge/g: want that`,
			`6: warning: spec.http[1].match[0]: is never reached: http[0].match[0] takes all requests of its path, under the same conditions`,
			`6: warning: spec.http[1].match[2]: is never reached: http[0].match[0] takes all requests of its path, under the same conditions`,
			`8: warning: spec.http[2].match[1]: is never reached: http[1].match[1] takes all requests of its path, under the same conditions`,
			`13: warning: spec.tls[1].match[1]: is never reached: tls[0].match[0] is the same`,
			`18: warning: spec.tcp[1].match[0]: is never reached: tcp[0].match[0] is the same`,
			`21: warning: spec.tcp[3]: is never reached: tcp[2] takes every connection`,
		}},
		"what a route does": {`
			hosts: [reviews]
			gateways: [mesh, "a/b/c", Upper]
			http:
			- match: [{uri: {prefix: /a}, method: {}, queryParams: {"": {}}, withoutHeaders: {"a b": {}, "@request.auth.claims..sub": {}}, port: 70000, gateways: ["*"]}]
			  route: [{destination: {host: a}, headers: {request: {set: {":path": b}, add: {host: c}, remove: [":method"]}}}]
			  redirect: {uri: /a, redirectCode: 300}
			  mirror: {host: b}
			  mirrors: [{destination: {host: ""}, percentage: {value: 101}}]
			- match: [{uri: {prefix: /b}}]
			  directResponse: {status: 100}
			  fault: {}
			  rewrite: {}
			- match: [{uri: {prefix: /c}}]
			  route: [{destination: {host: a}}]
			  fault: {delay: {percentage: {value: -1}}, abort: {grpcStatus: UNAVAILBLE, percentage: {value: 1}}}
			  retries: {attempts: 0, retryOn: "5xx,connect-failur,700"}
			  rewrite: {uriRegexRewrite: {match: "^/(.*)$", rewrite: "/\\2"}}
			- match: [{uri: {prefix: /d}}]
			  route: [{destination: {host: a}}]
			  corsPolicy: {allowOrigins: [{}], allowMethods: [get], maxAge: 1ms, allowHeaders: ["a b"]}
			  headers: {response: {add: {x-a: "50%", x-b: "%UPSTREAM_HOSTS%", x-c: "%REQ()%"}}}
			- {delegate: {name: A, namespace: a.b}}
		`, []string{
			`2: error: spec.gateways[1]: is "a/b/c", want NAME or NAMESPACE/NAME`,
			`2: error: spec.gateways[2]: is "Upper", want NAME or NAMESPACE/NAME`,
			`4: error: spec.http[0].match[0].method: is empty, want exact, prefix or regex`,
			"4: error: spec.http[0].match[0].withoutHeaders.@request.auth.claims..sub: names no claim of a token, want @request.auth.claims.NAME or @request.auth.claims[NAME], with further names for what is within",
			"4: error: spec.http[0].match[0].withoutHeaders[\"a b\"]: the header's name is \"a b\", want a token of HTTP",
			`4: error: spec.http[0].match[0].queryParams[""]: is missing`,
			`4: error: spec.http[0].match[0].port: is 70000, want a port, 1 to 65535`,
			`4: error: spec.http[0].match[0].gateways[0]: is "*", want NAME or NAMESPACE/NAME`,
			`5: error: spec.http[0].route[0].headers.request.add.host: the header's name is "host", want one that routes may change`,
			`5: error: spec.http[0].route[0].headers.request.set.:path: the header's name is ":path", want one that routes may change`,
			`5: error: spec.http[0].route[0].headers.request.remove[0]: is ":method", want the name of a header that routes may remove`,
			`6: error: spec.http[0].redirect: is given beside route, want one of route, redirect, directResponse and delegate`,
			`6: error: spec.http[0].redirect.redirectCode: is 300, want 301, 302, 303, 307 or 308`,
			`7: error: spec.http[0].mirror: is given beside route, which sends the request nowhere`,
			`8: error: spec.http[0].mirrors: are given beside mirror, want one of them`,
			`8: error: spec.http[0].mirrors[0].destination.host: is missing`,
			`8: error: spec.http[0].mirrors[0].percentage: is 101, want 0 to 100`,
			"10: error: spec.http[1].directResponse.status: is 100, want 200 to 599",
			"11: error: spec.http[1].fault: is given beside directResponse, which sends the request nowhere",
			"11: error: spec.http[1].fault: is empty, want delay or abort",
			"12: error: spec.http[1].rewrite: is given beside directResponse, which sends the request nowhere",
			"12: error: spec.http[1].rewrite: is empty, want uri, uriRegexRewrite or authority",
			"15: error: spec.http[2].fault.delay.percentage: is -1, want 0 to 100",
			"15: error: spec.http[2].fault.delay.fixedDelay: is missing",
			`15: error: spec.http[2].fault.abort.grpcStatus: is "UNAVAILBLE", did you mean "UNAVAILABLE"?`,
			"16: error: spec.http[2].retries.attempts: is 0, which is no retry, beside what is to be done on one",
			`16: error: spec.http[2].retries.retryOn: has "connect-failur", did you mean "connect-failure"?`,
			`16: error: spec.http[2].retries.retryOn: is "5xx,connect-failur,700": 700 is no status code`,
			`17: error: spec.http[2].rewrite.uriRegexRewrite.rewrite: is "/\\2", and the pattern has 1 groups`,
			"20: error: spec.http[3].corsPolicy.allowOrigins[0]: is empty, want exact, prefix or regex",
			`20: error: spec.http[3].corsPolicy.allowMethods[0]: is "get", did you mean "GET"?`,
			`20: error: spec.http[3].corsPolicy.allowHeaders[0]: is "a b", want the name of a header`,
			"20: error: spec.http[3].corsPolicy.maxAge: is 1ms, want whole seconds",
			`21: error: spec.http[3].headers.response.add.x-a: is "50%", want %% for a percent sign`,
			`21: error: spec.http[3].headers.response.add.x-b: has the command %UPSTREAM_HOSTS%, did you mean "UPSTREAM_HOST"?`,
			"21: error: spec.http[3].headers.response.add.x-c: has the command %REQ()%, want an argument: %REQ(…)%",
			`22: error: spec.http[4].delegate.name: is "A", want the name of a VirtualService`,
			`22: error: spec.http[4].delegate.namespace: is "a.b", want letters, digits and '-', at most 63`,
		}},
	})
}
