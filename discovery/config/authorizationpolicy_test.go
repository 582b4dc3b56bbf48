package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	security "istio.io/api/security/v1beta1"
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

// What a policy with an error is served as where no good form of it is known.
func TestClosedForms(t *testing.T) {
	const all = `{"action":"DENY","rules":[{}]}`
	head := "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}\n"
	for name, test := range map[string]struct{ text, want string }{
		"sound":                         {head + "spec: {action: DENY, rules: [{}]}", ""},
		"an allowance":                  {head + "spec: {selector: {matchLabels: {app: a}}, rules: [{}, {from: [{source: {ipBlocks: [x]}}]}]}", `{"selector":{"matchLabels":{"app":"a"}}}`},
		"a denial keeps what it can":    {head + "spec: {action: DENY, rules: [{to: [{operation: {paths: [/a]}}], when: [{key: x, values: [a]}]}]}", `{"action":"DENY","rules":[{"to":[{"operation":{"paths":["/a"]}}],"when":[{"key":"x","values":["a"]}]}]}`},
		"an unknown field":              {head + "spec: {action: DENY, rules: [{form: [], to: [{operation: {paths: [/a]}}]}]}", `{"action":"DENY","rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`},
		"a list with a wrong type":      {head + "spec: {action: DENY, rules: [{to: [{operation: {paths: [/a, [b]], notPaths: [/c, [d]]}}]}]}", `{"action":"DENY","rules":[{"to":[{"operation":{"notPaths":["/c"]}}]}]}`},
		"values with a wrong type":      {head + "spec: {action: DENY, rules: [{when: [{key: source.ip, values: [10.0.0.1, {}], notValues: [10.0.0.2]}]}]}", `{"action":"DENY","rules":[{"when":[{"key":"source.ip","notValues":["10.0.0.2"]}]}]}`},
		"a from that is none":           {head + "spec: {action: DENY, rules: [{from: [x, {source: {ipBlocks: [10.0.0.1]}}]}]}", all},
		"rules that are none":           {head + "spec: {action: DENY, rules: x}", all},
		"an action that is none":        {head + "spec: {selector: {matchLabels: {app: a}}, action: deny, rules: []}", `{"selector":{"matchLabels":{"app":"a"}},"action":"DENY","rules":[{}]}`},
		"a selector that is none":       {head + "spec: {selector: {matchLabels: {app: '*'}}, action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}", `{"action":"DENY","rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`},
		"a selector with another field": {head + "spec: {selector: {labels: {app: a}}, rules: [{}]}", `{}`},
		"targets":                       {head + "spec: {targetRefs: [{kind: Service, name: a}], rules: [{}]}", `{}`},
		"nobody, as it seems":           {head + "spec: {rules: [{from: []}]}", `{}`},
		"an audit":                      {head + "spec: {action: AUDIT, rules: [{when: [{key: x, values: [a]}]}]}", ""},
		"an audit of no rule":           {head + "spec: {action: AUDIT, rules: [5]}", ""},
		"an audit without its rules":    {head + "spec: {action: AUDIT, rulez: [{}]}", ""},
		"an audit that may be a denial": {head + "spec: {action: AUDIT, action: DENY, rules: [{}]}", all},
		"an allowance of no rule":       {head + "spec: {rules: [null, {}]}", `{}`},
		"an allowance of no rules":      {head + "spec: {action: ALLOW, rules: x}", `{}`},
		"an allowance from nobody":      {head + "spec: {rules: [{from: [null]}]}", `{}`},
		"an allowance by action 5":      {head + "spec: {action: 5, rules: [null]}", all},
		"a custom policy":               {head + "spec: {action: CUSTOM, provider: {name: a}, rules: [{to: [{operation: {paths: [/a], x: y}}]}]}", `{"action":"DENY","rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`},
		"a custom policy of nobody":     {head + "spec: {action: CUSTOM, rules: [{to: [{operation: {paths: [/a]}}]}]}", `{"action":"DENY","rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`},
		"a custom policy for clients":   {head + "spec: {action: CUSTOM, provider: {name: a}, rules: [{from: [{source: {namespaces: [b]}}]}]}", `{"action":"DENY","rules":[{"from":[{"source":{"namespaces":["b"]}}]}]}`},
		"a custom policy without rules": {head + "spec: {action: CUSTOM, provider: {name: a}}", all},
		"no object":                     {head + "spec: [1]", all},
		"another word for the spec":     {head + "spek: {action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}", all},
		"another word beside the spec":  {head + "spec: {rules: [{}]}\nspek: {action: DENY}", all},
		"wrong metadata":                {strings.Replace(head, "namespace: shop", "namespace: shop, labels: [b]", 1) + "spec: {rules: [{}]}", `{}`},
		"another version":               {strings.Replace(head, "/v1\n", "/v2\n", 1) + "spec: {action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}", `{"action":"DENY","rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`},
		"a misspelt kind":               {strings.Replace(head, "AuthorizationPolicy", "AuthorisationPolicy", 1) + "spec: {rules: [{}]}", `{}`},
		"many faults":                   {head + "spec: {action: DENY, rules: [{to: [{operation: {paths: [" + strings.Repeat("[], ", 50) + "]}}]}]}", all},
		"a dry run that is unclear":     {strings.Replace(head, "namespace: shop", "namespace: shop, annotations: {istio.io/dry-run: perhaps}", 1) + "spec: {action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}", `{"action":"DENY","rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`},
		"another kind":                  {"apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: p}\nspec: {egress: [{}]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			items := Read([]byte(test.text))
			if len(items) != 1 {
				t.Fatalf("there are %d items", len(items))
			}
			o := items[0].Closed
			if o == nil || test.want == "" {
				if o != nil || test.want != "" {
					t.Fatalf("its closed form is %v, want %q, of %v", o, test.want, items[0].Problems)
				}
				return
			}
			if !o.Closed || o.Key() != "AuthorizationPolicy/shop/p" || o.DryRun || items[0].Object != nil || !items[0].Refused() {
				t.Errorf("it is %+v, beside %v", o.Meta, items[0].Object)
			}
			text, err := protojson.Marshal(o.Spec.(*security.AuthorizationPolicy))
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if json.Unmarshal(text, &got) != nil || json.Unmarshal([]byte(test.want), &want) != nil {
				t.Fatal("no JSON")
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Errorf("it is %s, want %s", a, b)
			}
		})
	}
}
