package config

import (
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
	f.targets(p.TargetRef, p.TargetRefs)
	custom := p.Action == security.AuthorizationPolicy_CUSTOM
	if custom {
		f.customPolicy(p)
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
		f.at("rules").item(i).policyRule(r, p.Action)
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

// targets refuses the names of what does not exist here.
func (f field) targets(one *typev1beta1.PolicyTargetReference, all []*typev1beta1.PolicyTargetReference) {
	const why = "names a waypoint, or a Gateway of the Gateway API, which are not served: want a selector"
	if one != nil {
		f.at("targetRef").errorf(why)
	}
	if len(all) > 0 {
		f.at("targetRefs").errorf(why)
	}
}

func (f field) policyRule(r *security.Rule, action security.AuthorizationPolicy_Action) {
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
		at.doubtfulPrincipals("principals", s.Principals)
		at.doubtfulPrincipals("notPrincipals", s.NotPrincipals)
		http, tcp := at.conditions(s.ProtoReflect(), sourceFields)
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
		http, tcp := at.conditions(to.Operation.ProtoReflect(), operationFields)
		toHTTP, toTCP = toHTTP || http, toTCP || tcp
		at.doubtful(to.Operation, action)
	}
	for i, w := range r.GetWhen() {
		f.at("when").item(i).condition(w)
	}
	if action == security.AuthorizationPolicy_DENY && (fromOnly && ofHTTP && !ofTCP || toHTTP && !toTCP) {
		f.warnf("asks for properties of HTTP only: connections to ports of TCP do not have these, and all are closed; want ports, or a selector, beside them")
	}
}

// conditions requires values that can be compared in the lists of a source or an operation. It returns whether it has
// lists about HTTP, and others.
func (f field) conditions(m protoreflect.Message, fields map[string]model.Attribute) (http, tcp bool) {
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

func (f field) condition(w *security.Condition) {
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
			f.doubtfulPrincipals(name, list)
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
