package explain

import (
	"fmt"
	"strings"
	"testing"
)

const ofGateway = `
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: shop}
spec:
  selector: {app: gw}
  servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: [server.test]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: gw, namespace: shop}
spec: {hosts: [server.test], gateways: [gw], http: [{route: [{destination: {host: server.test, port: {number: 80}}}]}]}
`

// Explain judges tokens and policies of a gateway as those of a server. It does not know the client of a gateway, nor its address.
func TestPoliciesOfGateways(t *testing.T) {
	const at = "selector: {matchLabels: {app: gw}}, "
	asks := object("RequestAuthentication", "{"+at+"jwtRules: [{issuer: a.test, jwks: '"+key+"'}]}")
	policy := func(spec string) string { return object("AuthorizationPolicy", "{"+at+spec+"}") }
	for _, row := range []struct{ name, objects, path, header, want string }{
		{"none", "", "/", "", "0 a server answers"},
		{"a token", asks, "/", bearer(`{"iss":"a.test"}`), "0 a server answers; unless " + tokenTime},
		{"another's token", asks, "/", bearer(`{"iss":"b.test"}`), `401 the token is of issuer "b.test", want "a.test"`},
		{"a claim", asks + policy(`rules: [{when: [{key: "request.auth.claims[a]", values: [b]}]}]`), "/", bearer(`{"iss":"a.test","a":"c"}`), "403 no policy of the gateway allows it"},
		{"no token", asks + policy(`rules: [{when: [{key: "request.auth.claims[a]", values: [b]}]}]`), "/", "a=b", "403 no policy of the gateway allows it"},
		{"a path", policy(`action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]`), "/secret", "", "403 denied by ns[shop]-policy[a]-rule[0] [AuthorizationPolicy shop/a spec.rules[0] at"},
		{"another path", policy(`action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]`), "/", "", "0 a server answers"},
		{"an address", policy(`rules: [{from: [{source: {remoteIpBlocks: [10.0.0.0/8]}}]}]`), "/", "", "0 a server answers; unless ns[shop]-policy[a]-rule[0]"},
		{"a client without a certificate", policy(`rules: [{from: [{source: {principals: ["*"]}}]}]`), "/", "", "403 no policy of the gateway allows it"},
		{"an audit", policy(`action: AUDIT, rules: [{}]`), "/", "", "0 a server answers"},
	} {
		q := Question{
			From: "router~10.0.0.9~gw.shop~shop.svc.cluster.local", Metadata: map[string]string{"NAMESPACE": "shop", "LABELS": "app=gw"},
			To: "server.test:8080", Address: "10.0.0.9:8080", Path: row.path,
		}
		if row.header != "" {
			q.Header = []string{row.header}
		}
		road, err := q.Answer(meshOf(t, sides+ofGateway+row.objects))
		if err != nil {
			t.Fatal(err)
		}
		o := road.Outcomes[0]
		text := fmt.Sprint(o.Status, " ", o.Reason)
		if len(o.Unless) > 0 {
			text += "; unless " + strings.Join(o.Unless, " ")
		}
		if len(road.Outcomes) != 1 || !strings.HasPrefix(text, row.want) || len(row.want) < 25 && text != row.want {
			t.Errorf("%s: got %q, want %q of\n%s", row.name, text, row.want, road.Text())
		}
	}
}
