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
		"not supported": {`
			host: reviews
			trafficPolicy:
			  tls: {mode: SIMPLE}
			  loadBalancer: {consistentHash: {useSourceIp: true}}
			workloadSelector: {matchLabels: {app: a}}
		`, []string{
			`3: warning: spec.trafficPolicy.tls: DestinationRule.trafficPolicy.tls is not supported, ignored`,
			`4: warning: spec.trafficPolicy.loadBalancer.consistentHash: ` +
				`DestinationRule.trafficPolicy.loadBalancer.consistentHash is not supported, ignored`,
			`5: error: spec.workloadSelector: DestinationRule.workloadSelector is not supported; ` +
				`without it the object would apply to more than it says`,
		}},
	})
}
