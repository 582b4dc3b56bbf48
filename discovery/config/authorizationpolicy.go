package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// sourceFields and operationFields say what the lists of a rule are compared with. A list with "not" before its name is
// compared with the same.
var (
	sourceFields = map[string]model.Attribute{
		"principals": model.SourcePrincipal, "requestPrincipals": model.RequestPrincipal, "namespaces": model.SourceNamespace,
		"serviceAccounts": model.SourceAccount, "ipBlocks": model.SourceIP, "remoteIpBlocks": model.RemoteIP, "trustDomains": model.SourceDomain,
	}
	operationFields = map[string]model.Attribute{
		"hosts": model.Host, "ports": model.DestinationPort, "methods": model.Method, "paths": model.Path,
	}
)

// maxAccounts is how many service accounts a list may have: Istio's.
const maxAccounts = 16

func authorizationPolicy(f field, p *security.AuthorizationPolicy) {
	f.selector(p.GetSelector())
	policyTargets(f, p.TargetRef, p.TargetRefs)
	custom := p.Action == security.AuthorizationPolicy_CUSTOM
	if custom {
		customPolicy(f, p)
	}
	if f.report.dryRun && p.Action == security.AuthorizationPolicy_AUDIT {
		f.at("action").errorf("is %s under the annotation %s, want ALLOW or DENY", p.Action, dryRunAnnotation)
	}
	if p.GetProvider() != nil && !custom {
		f.at("provider").errorf("is given under action %s, want CUSTOM", p.Action)
	}
	if (custom || p.Action == security.AuthorizationPolicy_DENY) && len(p.Rules) == 0 {
		f.at("rules").errorf("is missing, and %s without rules would concern nothing: want [{}] for everything", p.Action)
	}
	for i, r := range p.Rules {
		policyRule(f.at("rules").item(i), r, p.Action)
	}
}

// selector requires the labels of a policy's workloads.
func (f field) selector(s *typev1beta1.WorkloadSelector) {
	if s == nil {
		return
	}
	f.at("selector").at("matchLabels").labels(s.MatchLabels)
	f.at("selector").someLabels(s.MatchLabels)
}

// policyTargets refuses the names of what does not exist here.
func policyTargets(f field, one *typev1beta1.PolicyTargetReference, all []*typev1beta1.PolicyTargetReference) {
	const why = "names a waypoint, or a Gateway of the Gateway API, which are not served: want a selector"
	if one != nil {
		f.at("targetRef").errorf(why)
	}
	if len(all) > 0 {
		f.at("targetRefs").errorf(why)
	}
}

func policyRule(f field, r *security.Rule, action security.AuthorizationPolicy_Action) {
	for name, n := range inOrder(map[string]int{"from": len(r.GetFrom()), "to": len(r.GetTo())}) {
		if n == 0 && f.at(name).given() {
			f.at(name).errorf("is empty: it seems to mean nobody, and would mean everybody; want one or more, or no %s", name)
		}
	}
	ofHTTP, ofTCP := false, false // what the rule asks, beside `when`
	for i, from := range r.GetFrom() {
		at := f.at("from").item(i).at("source")
		if from.GetSource() == nil {
			at.errorf("is missing")
			continue
		}
		s := from.Source
		if len(s.Principals)+len(s.NotPrincipals)+len(s.Namespaces)+len(s.NotNamespaces) > 0 && len(s.ServiceAccounts)+len(s.NotServiceAccounts) > 0 {
			at.errorf("has service accounts beside principals or namespaces, want one of these")
		}
		for name, accounts := range inOrder(map[string][]string{"serviceAccounts": s.ServiceAccounts, "notServiceAccounts": s.NotServiceAccounts}) {
			if len(accounts) > maxAccounts {
				at.at(name).errorf("has %d values, want at most %d", len(accounts), maxAccounts)
			}
		}
		unmatchablePrincipals(at, "principals", s.Principals)
		unmatchablePrincipals(at, "notPrincipals", s.NotPrincipals)
		http, tcp := ruleConditions(at, s.ProtoReflect(), sourceFields)
		ofHTTP, ofTCP = ofHTTP || http, ofTCP || tcp
	}
	fromOnly := len(r.GetFrom()) > 0 && len(r.GetTo()) == 0
	toHTTP, toTCP := false, false
	for i, to := range r.GetTo() {
		at := f.at("to").item(i).at("operation")
		if to.GetOperation() == nil {
			at.errorf("is missing")
			continue
		}
		http, tcp := ruleConditions(at, to.Operation.ProtoReflect(), operationFields)
		toHTTP, toTCP = toHTTP || http, toTCP || tcp
		unmatchableOperation(at, to.Operation, action)
	}
	for i, w := range r.GetWhen() {
		policyCondition(f.at("when").item(i), w)
	}
	if action == security.AuthorizationPolicy_DENY && (fromOnly && ofHTTP && !ofTCP || toHTTP && !toTCP) {
		f.warnf("asks for properties of HTTP only: connections to ports of TCP do not have these, and all are closed; want ports, or a selector, beside them")
	}
}

// ruleConditions requires values that can be compared in the lists of a source or an operation. It returns whether it
// has lists about HTTP, and others.
func ruleConditions(f field, m protoreflect.Message, fields map[string]model.Attribute) (http, tcp bool) {
	some := false
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		list := m.Get(fd).List()
		if list.Len() == 0 {
			continue
		}
		of := attributeOf(fd.JSONName(), fields)
		some, http, tcp = true, http || of.HTTP(), tcp || !of.HTTP()
		for j := range list.Len() {
			if fault := model.ConditionFault(of, list.Get(j).String()); fault != "" {
				f.at(fd.JSONName()).item(j).errorf("%s", fault)
			}
		}
	}
	if !some {
		f.errorf("is empty, want one or more conditions")
	}
	return http, tcp
}

// attributeOf returns what a list is compared with.
func attributeOf(list string, fields map[string]model.Attribute) model.Attribute {
	if of, found := fields[list]; found {
		return of
	}
	rest := strings.TrimPrefix(list, "not")
	return fields[strings.ToLower(rest[:1])+rest[1:]]
}

func policyCondition(f field, w *security.Condition) {
	if !f.at("key").required(len(w.GetKey())) {
		return
	}
	c, known := model.ParseCondition(w.Key)
	if !known {
		f.at("key").errorf("is %q, want one of %s", w.Key, strings.Join(model.ConditionKeys(), ", "))
		return
	}
	if len(w.Values)+len(w.NotValues) == 0 {
		f.errorf("has neither values nor notValues")
	}
	for name, list := range inOrder(map[string][]string{"values": w.Values, "notValues": w.NotValues}) {
		if c.Attribute == model.SourcePrincipal {
			unmatchablePrincipals(f, name, list)
		}
		if c.Attribute == model.SourceAccount && len(list) > maxAccounts {
			f.at(name).errorf("has %d values, want at most %d", len(list), maxAccounts)
		}
		for i, v := range list {
			if fault := model.ConditionFault(c.Attribute, v); fault != "" {
				f.at(name).item(i).errorf("%s", fault)
			}
		}
	}
}

// A value that no request has is no error, and a DENY that rests on it is an open door: so it is warned of, with what to write.

// unmatchableOperation warns of such values of an operation.
func unmatchableOperation(f field, o *security.Operation, action security.AuthorizationPolicy_Action) {
	for name, list := range inOrder(map[string][]string{"methods": o.Methods, "notMethods": o.NotMethods}) {
		for i, v := range list {
			if v != strings.ToUpper(v) {
				f.at(name).item(i).warnf("is %q, and methods are compared as they are: no usual one has small letters; want %s", v, strings.ToUpper(v))
			}
		}
	}
	for name, list := range inOrder(map[string][]string{"paths": o.Paths, "notPaths": o.NotPaths}) {
		for i, v := range list {
			unmatchablePath(f.at(name).item(i), v)
		}
	}
	for name, list := range inOrder(map[string][]string{"hosts": o.Hosts, "notHosts": o.NotHosts}) {
		for i, v := range list {
			at := f.at(name).item(i)
			allowed := action == security.AuthorizationPolicy_ALLOW || action == security.AuthorizationPolicy_AUDIT
			switch {
			case strings.HasSuffix(v, ".") && v != ".":
				at.warnf("is %q, and gateways remove the dot at the end: want %s", v, strings.TrimSuffix(v, "."))
			case allowed || name == "notHosts" || strings.ContainsAny(v, ":*"):
			case !slices.Contains(list, v+":*") && !slices.Contains(list, v+"*"):
				at.warnf("is %q, and no request matches it whose host names a port, such as %s:8080: want %s:* too", v, v, v)
			}
		}
	}
}

func unmatchablePath(f field, v string) {
	bare, _, query := strings.Cut(v, "?")
	escaped := strings.ReplaceAll((&url.URL{Path: v}).EscapedPath(), "%2A", "*")
	switch {
	case v == "" || strings.Contains(v, "{"):
	case !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "*"):
		f.warnf("is %q, and paths begin with /: no request has it; want /%s", v, v)
	case query:
		f.warnf("is %q, and paths are compared without the query: no request has it; want %s", v, bare)
	case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }):
		f.warnf("is %q, and paths are compared as they are escaped: no request has it; want %s", v, strings.ReplaceAll(escaped, "%25", "%"))
	case strings.Contains(v+"/", "/../") || strings.Contains(v+"/", "/./"):
		f.warnf("is %q, and the segments . and .. are removed before paths are compared: no request has it; want a path without", v)
	}
}

// unmatchablePrincipals warns of names that do not begin with a trust domain.
func unmatchablePrincipals(f field, name string, list []string) {
	for i, v := range list {
		v = strings.TrimPrefix(v, "spiffe://")
		switch at := f.at(name).item(i); {
		case strings.HasPrefix(v, "/") || strings.HasPrefix(v, "ns/") || strings.HasPrefix(v, "sa/"):
			at.warnf("is %q, and principals begin with a trust domain: no client has it; want cluster.local/ns/NAMESPACE/sa/ACCOUNT, or */ns/NAMESPACE/sa/ACCOUNT", v)
		case v != "" && !strings.ContainsAny(v, "/*"):
			at.warnf("is %q, and principals are TRUSTDOMAIN/ns/NAMESPACE/sa/ACCOUNT: no client has it; want */sa/%s for an account of any namespace", v, v)
		}
	}
}

// An object with an error is left out, or keeps its last good form. A policy that is left out lets in whom it keeps out, so
// it has a third form, which is served where no good one is known: what it could have meant at its strictest.

// denyAll is a policy that keeps everybody out.
func denyAll() *security.AuthorizationPolicy {
	return &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{}}}
}

// failClosedPolicy closes a policy that was read but for these faults. What is left out of a rule that denies makes it
// deny more; so does a value of a negative list. The translation does the same with values that were read and mean
// nothing.
func failClosedPolicy(p *security.AuthorizationPolicy, faults []Problem) *security.AuthorizationPolicy {
	all, seen := false, map[string]bool{}
	for _, f := range faults {
		top, _, _ := strings.Cut(f.Path, ".")
		if f.Severity == Warning || top == "metadata" || top == "apiVersion" || top == "kind" {
			continue
		}
		if top != "spec" || f.Path == "spec" || seen[f.Path] { // not all of it was read, or it has another name
			return denyAll()
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
