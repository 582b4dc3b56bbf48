package model

import (
	"fmt"

	security "istio.io/api/security/v1beta1"
)

// Notes about policies.

func (j *judge) authorizationPolicy(meta Meta, p *security.AuthorizationPolicy) {
	labels, where := p.GetSelector().GetMatchLabels(), "the workloads of "+meta.Namespace
	if meta.Namespace == j.mesh.settings.RootNamespace() {
		where = "all workloads"
	}
	if len(labels) > 0 {
		where = fmt.Sprintf("those of %s with the labels of its selector", where)
	}
	if meta.Closed {
		what := "what its rules name, as far as they can be read, is denied"
		switch {
		case p.Action == security.AuthorizationPolicy_ALLOW:
			what = "it allows nobody"
		case len(p.Rules) == 1 && len(p.Rules[0].From)+len(p.Rules[0].To)+len(p.Rules[0].When) == 0:
			what = "every request is denied"
		}
		j.note(ClosedPolicy, meta, "", "has an error, and no earlier form that has none: at %s %s; want it mended", where, what)
		return
	}
	if meta.Namespace == j.mesh.settings.RootNamespace() {
		return // its labels may be those of any namespace
	}
	const selector = "spec.selector.matchLabels"
	if j.selector(meta, selector, labels, meta.Namespace) {
		j.proxies(meta, selector, labels, j.inside[meta.Namespace])
	}
}
