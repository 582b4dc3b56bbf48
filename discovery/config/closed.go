package config

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	security "istio.io/api/security/v1beta1"
)

// An object with an error is left out, or keeps its last good form. A policy that is left out lets in whom it keeps out, so
// it has a third form, which is served where no good one is known: what it could have meant at its strictest.

// everything is a policy that keeps everybody out.
func everything() *security.AuthorizationPolicy {
	return &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{}}}
}

// closedPolicy closes a policy that was read but for these faults. What is left out of a rule that denies makes it deny
// more; so does a value of a negative list. The translation does the same with values that were read and mean nothing.
func closedPolicy(p *security.AuthorizationPolicy, faults []Problem) *security.AuthorizationPolicy {
	all, seen := false, map[string]bool{}
	for _, f := range faults {
		top, _, _ := strings.Cut(f.Path, ".")
		if f.Severity == Warning || top == "metadata" || top == "apiVersion" || top == "kind" {
			continue
		}
		if top != "spec" || f.Path == "spec" || seen[f.Path] { // not all of it was read, or it has another name
			return everything()
		}
		seen[f.Path] = true
		all = closePath(p, f.Path) || all
	}
	r := newPlaceless()
	r.root().selector(p.Selector)
	if r.counts[Error] > 0 || p.TargetRef != nil || len(p.TargetRefs) > 0 {
		p.Selector, p.TargetRef, p.TargetRefs = nil, nil, nil
	}
	p.ActionDetail = nil
	switch {
	case p.Action == security.AuthorizationPolicy_AUDIT: // it never kept anybody out
		return nil
	case all:
		p.Action, p.Rules = security.AuthorizationPolicy_DENY, []*security.Rule{{}}
	case p.Action == security.AuthorizationPolicy_ALLOW:
		p.Rules = nil
	default:
		if p.Action = security.AuthorizationPolicy_DENY; len(p.Rules) == 0 {
			p.Rules = []*security.Rule{{}}
		}
	}
	return p
}

var (
	ruleItem = regexp.MustCompile(`^spec\.rules(\[\d+\](\.(from|to|when)\[\d+\])?)?$`) // what is left out there shifts the others, or denies less
	listItem = regexp.MustCompile(`^spec\.rules\[(\d+)\]\.(from|to|when)\[(\d+)\](?:\.(?:source|operation))?\.(\w+)\[\d+\]$`)
)

// closePath closes what a fault at a path leaves open. It reports whether the policy could have denied everything.
func closePath(p *security.AuthorizationPolicy, path string) bool {
	top, _, deeper := strings.Cut(strings.TrimPrefix(path, "spec."), ".")
	top, _, _ = strings.Cut(top, "[")
	switch {
	case top == "selector", top == "targetRef", top == "targetRefs":
		p.Selector = nil
		return false
	case top == "provider":
		return false
	case top != "rules": // the action, or a field that may have been meant to be it, or the rules
		return p.Action == security.AuthorizationPolicy_ALLOW || len(p.Rules) == 0
	case p.Action == security.AuthorizationPolicy_ALLOW: // it has no rules then, and others of the workload let in whom they name
		return false
	case !deeper, ruleItem.MatchString(path):
		return true
	}
	m := listItem.FindStringSubmatch(path)
	if m == nil || strings.HasPrefix(m[4], "not") {
		return false // it is left out
	}
	list := ruleList(p, m[1], m[2], m[3], m[4])
	if list == nil {
		return true
	}
	list()
	return false
}

// ruleList returns a function that empties a list of a rule, which then asks nothing; nil for a list that is not there.
func ruleList(p *security.AuthorizationPolicy, rule, part, item, name string) (empty func()) {
	at := func(m protoreflect.Message, list, index string) protoreflect.Message {
		fd := m.Descriptor().Fields().ByJSONName(list)
		i := indexOf(index)
		if fd == nil || !fd.IsList() || fd.Message() == nil || i >= m.Get(fd).List().Len() {
			return nil
		}
		return m.Get(fd).List().Get(i).Message()
	}
	m := at(p.ProtoReflect(), "rules", rule)
	if m != nil {
		m = at(m, part, item)
	}
	if m == nil {
		return nil
	}
	if below := map[string]protoreflect.Name{"from": "source", "to": "operation"}[part]; below != "" {
		m = m.Mutable(m.Descriptor().Fields().ByName(below)).Message()
	}
	fd := m.Descriptor().Fields().ByJSONName(name)
	if fd == nil || !fd.IsList() {
		return nil
	}
	return func() { m.Clear(fd) }
}
