package model

import (
	"fmt"
	"slices"

	security "istio.io/api/security/v1beta1"
)

// Notes about policies of HTTP at ports without a declared protocol, where Envoy detects HTTP in the first bytes of a connection: a
// client decides what these are.

// AboutHTTP reports whether a rule has a condition that only requests of HTTP have.
func AboutHTTP(rule *security.Rule) bool {
	for _, to := range rule.GetTo() {
		o := to.GetOperation()
		if len(o.GetHosts())+len(o.GetNotHosts())+len(o.GetMethods())+len(o.GetNotMethods())+len(o.GetPaths())+len(o.GetNotPaths()) > 0 {
			return true
		}
	}
	for _, from := range rule.GetFrom() {
		if s := from.GetSource(); len(s.GetRequestPrincipals())+len(s.GetNotRequestPrincipals()) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(rule.GetWhen(), func(w *security.Condition) bool {
		c, _ := ParseCondition(w.GetKey())
		return c.Attribute.HTTP()
	})
}

// undeclared adds a note if a policy is for workloads at a port without a declared protocol. what becomes of a connection there that is not
// detected as HTTP.
func (j *judge) undeclared(meta Meta, labels map[string]string, path, what string) {
	found, more := "", 0
	for _, s := range j.mesh.services {
		if s.External || s.Namespace != meta.Namespace && meta.Namespace != j.mesh.settings.RootNamespace() ||
			!slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool { return Selects(labels, e.Labels) }) {
			continue
		}
		for _, p := range s.Ports {
			switch {
			case p.Protocol != Unknown:
			case found == "":
				found = fmt.Sprintf("port %d of %s", p.Number, s.Host)
			default:
				more++
			}
		}
	}
	if found == "" {
		return
	}
	if more > 0 {
		found += fmt.Sprintf(" and %d more", more)
	}
	j.note(UndeclaredPort, meta, path, "%s: no protocol is declared, so HTTP is detected in the first bytes of a connection, and one that is not detected as HTTP %s; "+
		"want the port's protocol declared, HTTP or TCP", found, what)
}
