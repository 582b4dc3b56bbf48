package authz

import (
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The name of a rule says which it is.
func TestRuleNames(t *testing.T) {
	for _, p := range []model.Policy{{Namespace: "shop", Name: "a"}, {Namespace: "a]-policy[b", Name: "c.d-rule[0]"}, {}} {
		if namespace, name, rule, ok := ParseRuleName(ruleName(p, 12)); !ok || rule != 12 || namespace+name != p.Namespace+p.Name && p.Namespace == "shop" {
			t.Errorf("%q is read as %q, %q, %d", ruleName(p, 12), namespace, name, rule)
		}
	}
	for _, text := range []string{"", "ns[a]-policy[b]", "ns[a]-policy[b]-rule[x]", "ns[a]-policy[b]-rule[99999999999999999999]"} {
		if _, _, _, ok := ParseRuleName(text); ok {
			t.Errorf("%q is the name of a rule", text)
		}
	}
}
