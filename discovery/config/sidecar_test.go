package config

import "testing"

func TestSidecar(t *testing.T) {
	runRules(t, "Sidecar", map[string]ruleTest{
		"sound": {spec: `
			workloadSelector: {labels: {app: reviews}}
			ingress:
			- {port: {number: 1, protocol: HTTP, name: http}, bind: 127.0.0.11, defaultEndpoint: "127.0.0.1:9080"}
			- {port: {number: 2, protocol: HTTP2}, defaultEndpoint: "0.0.0.0:9080"}
			- {port: {number: 3, protocol: GRPC}, defaultEndpoint: "[::1]:9080"}
			- {port: {number: 4, protocol: TCP}, defaultEndpoint: "[::]:9080"}
			- {port: {number: 5, protocol: TCP}, defaultEndpoint: unix:///run/app.sock}
			- {port: {number: 5, protocol: TCP}, bind: "::1"}
		`},
		"its own agent": {`
			ingress:
			- {port: {number: 1, protocol: HTTP}, defaultEndpoint: "127.0.0.1:15000"}
			- {port: {number: 2, protocol: HTTP}, defaultEndpoint: "0.0.0.0:15020"}
			- {port: {number: 3, protocol: HTTP}, defaultEndpoint: unix:///etc/istio/proxy/private-0/sds.sock}
			egress:
			- {port: {number: 0, protocol: HTTP}, bind: unix:///etc/istio/proxy/private-0/agent.sock, hosts: ["./*"]}
			- {port: {number: 0, protocol: HTTP}, bind: unix:///run/../etc/istio/x, hosts: ["./*"]}
		`, []string{
			`2: error: spec.ingress[0].defaultEndpoint: is "127.0.0.1:15000", a port that the proxy and its agent have for themselves: want one of the workload`,
			`3: error: spec.ingress[1].defaultEndpoint: is "0.0.0.0:15020", a port that the proxy and its agent have for themselves: want one of the workload`,
			`4: error: spec.ingress[2].defaultEndpoint: is "unix:///etc/istio/proxy/private-0/sds.sock", want the shortest form of a path outside of the directories of proxies' agents and of the system, such as unix:///run/app.sock`,
			`6: error: spec.egress[0].bind: is "unix:///etc/istio/proxy/private-0/agent.sock", want the shortest form of a path outside of the directories of proxies' agents and of the system, such as unix:///run/app.sock`,
			`7: error: spec.egress[1].bind: is "unix:///run/../etc/istio/x", want the shortest form of a path outside of the directories of proxies' agents and of the system, such as unix:///run/app.sock`,
		}},
		"nothing": {"{}", []string{"0: error: spec: says nothing, want ingress, egress, outboundTrafficPolicy or inboundConnectionPool"}},
		"everything wrong": {`
			workloadSelector: {labels: {"a b": c}}
			ingress:
			- {}
			- port: {number: 0, name: a.b}
			  bind: unix:///a
			  defaultEndpoint: 10.0.0.1:80
			- {port: {number: 80, protocol: HTTP}, defaultEndpoint: "127.0.0.1"}
			- {port: {number: 80, protocol: HTTP}, defaultEndpoint: "127.0.0.1:0"}
			- {port: {number: 81, protocol: HTTP}, defaultEndpoint: "unix://a"}
		`, []string{
			`1: error: spec.workloadSelector.labels["a b"]: the label's name is "a b", ` +
				`want letters, digits, '-', '_' and '.', at most 63`,
			`3: error: spec.ingress[0].port: is missing`,
			`4: error: spec.ingress[1].port.number: is 0, want a port, 1 to 65535`,
			`4: error: spec.ingress[1].port.name: is "a.b", want letters, digits and '-', at most 63`,
			`5: error: spec.ingress[1].bind: is "unix:///a", want an IP address`,
			`6: error: spec.ingress[1].defaultEndpoint: is "10.0.0.1:80", ` +
				`want 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT, [::]:PORT or unix:///path`,
			`7: error: spec.ingress[2].defaultEndpoint: is "127.0.0.1", ` +
				`want 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT, [::]:PORT or unix:///path`,
			`8: error: spec.ingress[3].defaultEndpoint: is "127.0.0.1:0", ` +
				`want 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT, [::]:PORT or unix:///path`,
			`8: error: spec.ingress[3].port.number: is ":80", which is there already`,
			`9: error: spec.ingress[4].defaultEndpoint: is "unix://a", want an absolute path after unix://`,
		}},
		"egress": {`
			egress:
			- {hosts: ["*", "a.b/*", "./-a"]}
			- {port: {number: 80, protocol: HTTP}, bind: a}
			- {port: {number: 80, protocol: HTTP}, bind: unix:///a, captureMode: IPTABLES, hosts: ["./*"]}
			- {bind: 127.0.0.1, hosts: ["~/*"]}
			outboundTrafficPolicy: {mode: REGISTRY_ONLY, egressProxy: {host: a}}
		`, []string{
			`2: error: spec.egress[0].hosts[0]: is "*", want NAMESPACE/HOST`,
			`2: error: spec.egress[0].hosts[1]: is "a.b", want letters, digits and '-', at most 63`,
			`2: error: spec.egress[0].hosts[2]: is "-a", want DNS labels of letters, digits and '-' between dots`,
			`2: error: spec.egress[0].port: is missing: only the last listener may be for every port`,
			`3: error: spec.egress[1].hosts: is missing`,
			`3: error: spec.egress[1].bind: is "a", want an IP address`,
			`4: error: spec.egress[2].port.number: is 80, want 0 at a Unix socket`,
			`4: error: spec.egress[2].captureMode: is IPTABLES, and nothing is captured at a Unix socket`,
			`5: error: spec.egress[3].bind: is given without a port`,
			`6: error: spec.outboundTrafficPolicy.egressProxy: is given under mode REGISTRY_ONLY, want ALLOW_ANY`,
			`6: error: spec.outboundTrafficPolicy.egressProxy.port: is missing`,
		}},
	})
}
