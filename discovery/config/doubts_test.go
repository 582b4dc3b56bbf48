package config

import (
	"fmt"
	"strings"
	"testing"
)

// Values that no request has are warned of, with what to write; those that some request has are not.
func TestValuesThatNoRequestHas(t *testing.T) {
	policy := func(action, rule string) string {
		return "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p}\nspec: {action: " + action + ", rules: [" + rule + "]}"
	}
	to := func(operation string) string { return "{to: [{operation: {ports: ['80'], " + operation + "}}]}" }
	for rule, want := range map[string]string{
		to("paths: [/straße]"):     "want /stra%C3%9Fe",
		to("paths: ['/a b']"):      "want /a%20b",
		to("paths: ['/a%20b c*']"): "want /a%20b%20c*",
		to("paths: ['/x?y=1']"):    "want /x",
		to("paths: [/x/../y]"):     "without",
		to("paths: [/x/..]"):       "without",
		to("notPaths: ['/é']"):     "want /%C3%A9",
		to("paths: [a]"):           "want /a",
		to("paths: [/a%20b, '/a..b', '*', '/a/*', '*.php', '/{*}/x']"): "",
		to("hosts: [a.com.]"):                           "want a.com",
		to("hosts: [a.com]"):                            "want a.com:* too",
		to("hosts: [a.com, 'a.com:*']"):                 "",
		to("hosts: ['a.com*']"):                         "",
		to("hosts: ['*.a.com', 'b.com:80']"):            "",
		to("notHosts: [a.com]"):                         "",
		"{from: [{source: {principals: [ns/a/sa/b]}}]}": "want cluster.local/ns/NAMESPACE/sa/ACCOUNT",
		"{from: [{source: {principals: ['spiffe://cluster.local/ns/a/sa/b']}}]}":           "",
		"{from: [{source: {notPrincipals: [b]}}]}":                                         "want */sa/b",
		"{when: [{key: source.principal, values: [/ns/a/sa/b]}]}":                          "want cluster.local/ns/NAMESPACE/sa/ACCOUNT",
		"{from: [{source: {principals: [td/ns/a/sa/b, '*/sa/b', 'td/*', '*', x/svc/y]}}]}": "",
	} {
		for _, action := range []string{"DENY", "ALLOW"} {
			want := want
			if action == "ALLOW" && strings.Contains(rule, " hosts: [a.com]") {
				want = "" // it lets in less
			}
			items := Read([]byte(policy(action, rule)))
			text := fmt.Sprint(items[0].Problems)
			if items[0].Object == nil || !strings.Contains(text, want) || want == "" && len(items[0].Problems) > 0 || want != "" && len(items[0].Problems) != 1 {
				t.Errorf("%s %s: %s, want %q", action, rule, text, want)
			}
		}
	}
}
