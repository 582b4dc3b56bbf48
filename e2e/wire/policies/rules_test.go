//go:build wire

package policies

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// rulesOf returns the rules of filters by the names of their policies, which CUSTOM policies have with something before and behind.
func rulesOf(t *testing.T, filters []*anypb.Any) map[string]*rbacv3.Policy {
	t.Helper()
	all := map[string]*rbacv3.Policy{}
	for _, f := range filters {
		for _, rules := range rbacOf(unpacked(t, f)) {
			for name, rule := range rules.GetPolicies() {
				all[fmt.Sprint(rules.Action, " ", plainName(name))] = rule
			}
		}
	}
	return all
}

func unpacked(t *testing.T, a *anypb.Any) proto.Message {
	t.Helper()
	m, err := a.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rbacOf(filter proto.Message) []*rbacv3.RBAC {
	switch f := filter.(type) {
	case *httprbacv3.RBAC:
		return []*rbacv3.RBAC{f.Rules, f.ShadowRules}
	case *tcprbacv3.RBAC:
		return []*rbacv3.RBAC{f.Rules, f.ShadowRules}
	}
	return nil
}

// plainName takes from the name of a rule what a CUSTOM policy adds.
func plainName(name string) string {
	if at := strings.Index(name, "ns["); at >= 0 {
		name = name[at:]
	}
	return strings.TrimSuffix(name, "-deny-due-to-bad-CUSTOM-action")
}

// condition is one of those that a rule joins by and: one of its two fields is not nil.
type condition struct {
	permission *rbacv3.Permission
	principal  *rbacv3.Principal
}

// rule returns a rule with this condition alone.
func (c condition) rule() *rbacv3.Policy {
	p := &rbacv3.Policy{
		Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}},
		Principals:  []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
	}
	if c.permission != nil {
		p.Permissions[0] = c.permission
	} else {
		p.Principals[0] = c.principal
	}
	return p
}

// conditionsOf returns the conditions of a rule: a list for each of its permissions, then one for each of its principals.
func conditionsOf(rule *rbacv3.Policy) (permissions, principals [][]condition) {
	for _, p := range rule.Permissions {
		all := []*rbacv3.Permission{p}
		if and := p.GetAndRules(); and != nil {
			all = and.Rules
		}
		var list []condition
		for _, p := range all {
			list = append(list, condition{permission: p})
		}
		permissions = append(permissions, list)
	}
	for _, p := range rule.Principals {
		all := []*rbacv3.Principal{p}
		if and := p.GetAndIds(); and != nil {
			all = and.Ids
		}
		var list []condition
		for _, p := range all {
			list = append(list, condition{principal: p})
		}
		principals = append(principals, list)
	}
	return permissions, principals
}

// leaf is a matcher, and what of a request it looks at: "header X", "metadata FILTER KEY …", "principal", …
type leaf struct {
	about string
	match any // *matcherv3.StringMatcher, *corev3.CidrRange, uint32, or a template of a path; nil for present, and for any
}

// about returns what a condition looks at, with "not" for one that must not be fulfilled.
func (c condition) about() string {
	word := ""
	if c.permission.GetNotRule() != nil || c.principal.GetNotId() != nil {
		word = "not "
	}
	return word + c.leaves()[0].about
}

func (c condition) leaves() []leaf {
	if c.permission != nil {
		return permissionLeaves(c.permission)
	}
	return principalLeaves(c.principal)
}

func leavesOfRule(r *rbacv3.Policy) (out []leaf) {
	permissions, principals := conditionsOf(r)
	for _, c := range slices.Concat(append(permissions, principals...)...) {
		out = append(out, c.leaves()...)
	}
	return out
}

func leavesOf(all []*rbacv3.RBAC) (out []leaf) {
	for _, rules := range all {
		for _, r := range rules.GetPolicies() {
			out = append(out, leavesOfRule(r)...)
		}
	}
	return out
}

func permissionLeaves(p *rbacv3.Permission) (out []leaf) {
	switch r := p.Rule.(type) {
	case *rbacv3.Permission_Any:
		return []leaf{{"any", nil}}
	case *rbacv3.Permission_AndRules:
		for _, p := range r.AndRules.Rules {
			out = append(out, permissionLeaves(p)...)
		}
		return out
	case *rbacv3.Permission_OrRules:
		for _, p := range r.OrRules.Rules {
			out = append(out, permissionLeaves(p)...)
		}
		return out
	case *rbacv3.Permission_NotRule:
		return permissionLeaves(r.NotRule)
	case *rbacv3.Permission_Header:
		return []leaf{{"header " + strings.ToLower(r.Header.Name), stringMatch(r.Header.GetStringMatch())}}
	case *rbacv3.Permission_UrlPath:
		return []leaf{{"path", stringMatch(r.UrlPath.GetPath())}}
	case *rbacv3.Permission_UriTemplate:
		return []leaf{{"path", r.UriTemplate.TypedConfig}}
	case *rbacv3.Permission_DestinationIp:
		return []leaf{{"address", r.DestinationIp}}
	case *rbacv3.Permission_DestinationPort:
		return []leaf{{"port", r.DestinationPort}}
	case *rbacv3.Permission_RequestedServerName:
		return []leaf{{"server name", stringMatch(r.RequestedServerName)}}
	case *rbacv3.Permission_Metadata:
		//lint:ignore SA1019 it is what Istio makes
		return metadataLeaves(r.Metadata)
	case *rbacv3.Permission_SourcedMetadata:
		return metadataLeaves(r.SourcedMetadata.MetadataMatcher)
	}
	panic(fmt.Sprint("a condition that this test does not know: ", p))
}

func principalLeaves(p *rbacv3.Principal) (out []leaf) {
	switch r := p.Identifier.(type) {
	case *rbacv3.Principal_Any:
		return []leaf{{"any", nil}}
	case *rbacv3.Principal_AndIds:
		for _, p := range r.AndIds.Ids {
			out = append(out, principalLeaves(p)...)
		}
		return out
	case *rbacv3.Principal_OrIds:
		for _, p := range r.OrIds.Ids {
			out = append(out, principalLeaves(p)...)
		}
		return out
	case *rbacv3.Principal_NotId:
		return principalLeaves(r.NotId)
	case *rbacv3.Principal_Authenticated_:
		return []leaf{{"principal", stringMatch(r.Authenticated.PrincipalName)}}
	case *rbacv3.Principal_DirectRemoteIp:
		return []leaf{{"peer", r.DirectRemoteIp}}
	case *rbacv3.Principal_RemoteIp:
		return []leaf{{"remote", r.RemoteIp}}
	case *rbacv3.Principal_Header:
		return []leaf{{"header " + strings.ToLower(r.Header.Name), stringMatch(r.Header.GetStringMatch())}}
	case *rbacv3.Principal_Metadata:
		//lint:ignore SA1019 it is what Istio makes
		return metadataLeaves(r.Metadata)
	case *rbacv3.Principal_SourcedMetadata:
		return metadataLeaves(r.SourcedMetadata.MetadataMatcher)
	}
	panic(fmt.Sprint("a condition that this test does not know: ", p))
}

// stringMatch keeps a nil pointer from becoming a value that is not nil.
func stringMatch(m *matcherv3.StringMatcher) any {
	if m == nil {
		return nil
	}
	return m
}

const separator = "\x1f" // between the parts of a metadata's place

func metadataLeaves(m *matcherv3.MetadataMatcher) (out []leaf) {
	place := []string{m.Filter}
	for _, segment := range m.Path {
		place = append(place, segment.GetKey())
	}
	about := "metadata " + strings.Join(place, separator)
	var walk func(*matcherv3.ValueMatcher)
	walk = func(v *matcherv3.ValueMatcher) {
		switch p := v.MatchPattern.(type) {
		case *matcherv3.ValueMatcher_StringMatch:
			out = append(out, leaf{about, p.StringMatch})
		case *matcherv3.ValueMatcher_ListMatch:
			walk(p.ListMatch.GetOneOf())
		case *matcherv3.ValueMatcher_OrMatch:
			for _, v := range p.OrMatch.ValueMatchers {
				walk(v)
			}
		default:
			panic(fmt.Sprint("a value that this test does not know: ", v))
		}
	}
	walk(m.Value)
	return out
}

// pair is a condition of Istio's, and ours in its place.
type pair struct {
	where        string
	theirs, ours condition
}

// paired returns the pairs of two rules of one name; fault says why there are none: they ask in another way.
func paired(name string, theirs, ours *rbacv3.Policy) (pairs []pair, fault string) {
	theirPermissions, theirPrincipals := conditionsOf(theirs)
	ourPermissions, ourPrincipals := conditionsOf(ours)
	for what, lists := range map[string][2][][]condition{
		"permission": {theirPermissions, ourPermissions}, "principal": {theirPrincipals, ourPrincipals},
	} {
		if len(lists[0]) != len(lists[1]) {
			return nil, fmt.Sprintf("%s: %d of kind %s, ours has %d", name, len(lists[0]), what, len(lists[1]))
		}
		for i := range lists[0] {
			found, fault := pairedLists(fmt.Sprintf("%s, %s %d", name, what, i), lists[0][i], lists[1][i])
			if fault != "" {
				return nil, fault
			}
			pairs = append(pairs, found...)
		}
	}
	return pairs, ""
}

// pairedLists pairs the conditions that look at the same, in their order.
func pairedLists(where string, theirs, ours []condition) (pairs []pair, fault string) {
	rest := slices.Clone(ours)
	for _, c := range theirs {
		i := slices.IndexFunc(rest, func(other condition) bool { return other.about() == c.about() })
		if i < 0 {
			return nil, fmt.Sprintf("%s: ours has nothing about %s", where, c.about())
		}
		pairs = append(pairs, pair{where + ", " + c.about(), c, rest[i]})
		rest = slices.Delete(rest, i, i+1)
	}
	if len(rest) > 0 {
		return nil, fmt.Sprintf("%s: Istio's has nothing about %s", where, rest[0].about())
	}
	return pairs, ""
}
