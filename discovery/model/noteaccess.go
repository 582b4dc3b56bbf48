package model

import (
	"fmt"

	security "istio.io/api/security/v1beta1"
)

// Notes about policies.

// guarded names the workloads of a policy.
func (j *judge) guarded(meta Meta, labels map[string]string) string {
	where := "the workloads of " + meta.Namespace
	if meta.Namespace == j.mesh.settings.RootNamespace() {
		where = "all workloads"
	}
	if len(labels) > 0 {
		where = fmt.Sprintf("those of %s with the labels of its selector", where)
	}
	return where
}

func (j *judge) authorizationPolicy(meta Meta, p *security.AuthorizationPolicy) {
	labels := p.GetSelector().GetMatchLabels()
	if meta.Closed {
		what := "what its rules name, as far as they can be read, is denied"
		switch {
		case p.Action == security.AuthorizationPolicy_ALLOW:
			what = "it allows nobody"
		case len(p.Rules) == 1 && len(p.Rules[0].From)+len(p.Rules[0].To)+len(p.Rules[0].When) == 0:
			what = "every request is denied"
		}
		j.note(ClosedPolicy, meta, "", "has an error, and no earlier form that has none: at %s %s; want it mended", j.guarded(meta, labels), what)
		return
	}
	j.guards(meta, labels)
	if p.Action == security.AuthorizationPolicy_CUSTOM && !meta.DryRun {
		j.customPolicy(meta, p)
	}
}

func (j *judge) requestAuthentication(meta Meta, p *security.RequestAuthentication) {
	labels := p.GetSelector().GetMatchLabels()
	if meta.Closed {
		what := "no token of an issuer whose keys are not known is taken"
		for _, r := range p.JwtRules {
			if r.GetIssuer() == "" {
				what = "no token is taken"
			}
		}
		j.note(ClosedPolicy, meta, "", "has an error, and no earlier form that has none: at %s %s; want it mended", j.guarded(meta, labels), what)
		return
	}
	for i, r := range p.JwtRules {
		if uri := r.GetJwksUri(); uri != "" && j.mesh.keySets[uri] == "" {
			j.note(NoKeys, meta, index("spec.jwtRules", i)+".jwksUri", "the keys at %s are not known yet: each token of %s is refused; /ready?verbose of discovery says why they could not be fetched", KeySetName(uri), r.Issuer)
		}
	}
	j.guards(meta, labels)
}

// guards adds notes about the selector of a policy.
func (j *judge) guards(meta Meta, labels map[string]string) {
	if meta.Namespace == j.mesh.settings.RootNamespace() {
		return // its labels may be those of any namespace
	}
	const selector = "spec.selector.matchLabels"
	if j.selector(meta, selector, labels, meta.Namespace) {
		j.proxies(meta, selector, labels, j.inside[meta.Namespace])
	}
}
