package config

import "testing"

func TestDestinationRule(t *testing.T) {
	runRules(t, "DestinationRule", map[string]ruleTest{
		"sound": {spec: `
			host: reviews
			trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}
			subsets:
			- {name: v1, labels: {version: v1}}
			- {name: v2, labels: {version: v2}, traffic_policy: {load_balancer: {simple: RANDOM}}}
		`},
		"nothing": {"{}", []string{"0: error: spec.host: is missing"}},
		"everything wrong": {`
			host: -a
			subsets:
			- name: v1.0
			- name: v1
			  labels: {version: "1 "}
			- name: v1
			- {}
		`, []string{
			`1: error: spec.host: is "-a", want DNS labels of letters, digits and '-' between dots`,
			`3: error: spec.subsets[0].name: is "v1.0", want letters, digits and '-', at most 63`,
			`5: error: spec.subsets[1].labels.version: is "1 ", want letters, digits, '-', '_' and '.', at most 63`,
			`6: error: spec.subsets[2].name: is "v1", which is there already`,
			`7: error: spec.subsets[3].name: is missing`,
		}},
		"a name of the server that is too long": {`
			host: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
			trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}
			subsets: [{name: v1}, {name: own, trafficPolicy: {tls: {mode: ISTIO_MUTUAL, sni: a.test}}}]
		`, []string{
			"1: error: spec.host: makes the name of the server under ISTIO_MUTUAL 262 bytes long, want at most 255: want shorter names, or tls.sni",
			"3: error: spec.subsets[0].name: makes the name of the server under ISTIO_MUTUAL 264 bytes long, want at most 255: want shorter names, or tls.sni",
		}},
		"policies": {`
			host: "*.local"
			trafficPolicy:
			  loadBalancer: {consistentHash: {maglev: {tableSize: 1000}}, warmup: {duration: 1ms, aggression: 0.5}}
			  connectionPool: {tcp: {maxConnections: -1, connectTimeout: 0s, tcpKeepalive: {time: 1ms}}}
			  outlierDetection: {maxEjectionPercent: 101, interval: 0s, consecutiveLocalOriginFailures: 1}
			  tls: {mode: MUTUAL}
			  portLevelSettings:
			  - {port: {number: 0}, tls: {mode: ISTIO_MUTUAL, clientCertificate: /a}}
			  - {port: {number: 80}, connectionPool: {http: {useClientProtocol: true, h2UpgradePolicy: UPGRADE, http2KeepAlive: {}}}}
			  - {port: {number: 80}, loadBalancer: {localityLbSetting: {distribute: [{from: "a/*/b", to: {"b": 50}}]}}}
			subsets:
			- {name: v1, trafficPolicy: {loadBalancer: {localityLbSetting: {failover: [{from: a, to: a}]}}}}
			- {name: v2, trafficPolicy: {loadBalancer: {consistentHash: {httpCookie: {ttl: 0s}}}}}
			- {name: v3, trafficPolicy: {tls: {mode: SIMPLE, credentialName: a, caCertificates: /b}}}
		`, []string{
			`3: error: spec.trafficPolicy.loadBalancer.consistentHash: has no key, want httpHeaderName, httpCookie, useSourceIp or httpQueryParameterName`,
			`3: error: spec.trafficPolicy.loadBalancer.consistentHash.maglev.tableSize: is 1000, want a prime number, at most 5000011`,
			`3: error: spec.trafficPolicy.loadBalancer.warmup.duration: is 1ms, want at least 1s`,
			`3: error: spec.trafficPolicy.loadBalancer.warmup.aggression: is 0.5, want 1 or more`,
			`3: warning: spec.trafficPolicy.loadBalancer: endpoints warm up under LEAST_REQUEST and ROUND_ROBIN only`,
			`4: error: spec.trafficPolicy.connectionPool.tcp.maxConnections: is -1, want 0 or more`,
			`4: error: spec.trafficPolicy.connectionPool.tcp.connectTimeout: is 0s, want at least 1ms, in whole milliseconds`,
			`4: error: spec.trafficPolicy.connectionPool.tcp.tcpKeepalive.time: is 1ms, want at least 1s`,
			`5: error: spec.trafficPolicy.outlierDetection.interval: is 0s, want at least 1ms, in whole milliseconds`,
			`5: error: spec.trafficPolicy.outlierDetection.maxEjectionPercent: is 101, want 0 to 100`,
			`5: error: spec.trafficPolicy.outlierDetection.consecutiveLocalOriginFailures: is given without splitExternalLocalOriginErrors`,
			`6: error: spec.trafficPolicy.tls.clientCertificate: is missing`,
			`6: error: spec.trafficPolicy.tls.privateKey: is missing`,
			`8: error: spec.trafficPolicy.portLevelSettings[0].port.number: is 0, want a port, 1 to 65535`,
			`8: error: spec.trafficPolicy.portLevelSettings[0].tls.clientCertificate: is given under ISTIO_MUTUAL, which takes the proxy's own`,
			`9: error: spec.trafficPolicy.portLevelSettings[1].connectionPool.http.useClientProtocol: is true beside h2UpgradePolicy UPGRADE, want one of them`,
			`9: error: spec.trafficPolicy.portLevelSettings[1].connectionPool.http.http2KeepAlive.interval: is missing`,
			`9: error: spec.trafficPolicy.portLevelSettings[1].connectionPool.http.http2KeepAlive.timeout: is missing`,
			`9: warning: spec.trafficPolicy.portLevelSettings[1].tls: is missing: for port 80 this is in the place of all the policy, its tls MUTUAL too, and connections are plain text; want tls here as well, or mode DISABLE`,
			`10: error: spec.trafficPolicy.portLevelSettings[2].port.number: is 80, which is there already`,
			`10: error: spec.trafficPolicy.portLevelSettings[2].loadBalancer.localityLbSetting.distribute[0].from: is "a/*/b", want region/zone/subzone, of which the end may be *`,
			`10: error: spec.trafficPolicy.portLevelSettings[2].loadBalancer.localityLbSetting.distribute[0].to: adds up to 50, want 100`,
			`10: warning: spec.trafficPolicy.portLevelSettings[2].tls: is missing: for port 80 this is in the place of all the policy, its tls MUTUAL too, and connections are plain text; want tls here as well, or mode DISABLE`,
			`12: error: spec.subsets[0].trafficPolicy.loadBalancer.localityLbSetting.failover[0].to: is "a", from which it fails over`,
			`13: error: spec.subsets[1].trafficPolicy.loadBalancer.consistentHash.httpCookie.name: is missing`,
			`14: error: spec.subsets[2].trafficPolicy.tls.caCertificates: is given beside credentialName, want one of them`,
		}},
		"not supported": {`
			host: reviews
			trafficPolicy:
			  tunnel: {targetHost: a, targetPort: 1}
			  outlierDetection: {consecutiveErrors: 5}
			subsets: [{name: v1, labels: {a: b}, trafficPolicy: {loadBalancer: {zoneAwareLbSetting: {}}}}]
		`, []string{
			`3: warning: spec.trafficPolicy.tunnel: DestinationRule.trafficPolicy.tunnel is not supported, ignored: connections are not tunnelled`,
			`4: warning: spec.trafficPolicy.outlierDetection.consecutiveErrors: DestinationRule.trafficPolicy.outlierDetection.consecutiveErrors ` +
				`is not supported, ignored: removed by Istio, use consecutive5xxErrors or consecutiveGatewayErrors`,
			`5: warning: spec.subsets[0].trafficPolicy.loadBalancer.zoneAwareLbSetting: DestinationRule.subsets.trafficPolicy.loadBalancer.` +
				`zoneAwareLbSetting is not supported, ignored: use localityLbSetting`,
		}},
	})
}
