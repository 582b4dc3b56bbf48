package model

import (
	"fmt"
	"strings"

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
	j.callers(meta, p)
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
		if uri := KeyURI(r); uri != "" && j.mesh.keySets[uri] == "" {
			field := ".jwksUri"
			if r.GetJwksUri() == "" {
				field = ".issuer"
			}
			j.note(NoKeys, meta, index("spec.jwtRules", i)+field, "the keys at %s are not known yet: each token of %s is refused; /ready?verbose of discovery says why they could not be fetched", KeySetName(uri), r.Issuer)
		}
	}
	j.undeclared(meta, labels, "spec.jwtRules", "reaches the workload with whatever tokens and headers of claims it has")
	j.guards(meta, labels)
}

// callers adds a note for each namespace of callers in which nothing is known: nobody there has a certificate. A name that begins or
// ends with * stands for all that end or begin with the rest.
func (j *judge) callers(meta Meta, p *security.AuthorizationPolicy) {
	for i, rule := range p.Rules {
		for k, from := range rule.GetFrom() {
			at := index(index("spec.rules", i)+".from", k) + ".source."
			j.callersOf(meta, at+"namespaces", from.GetSource().GetNamespaces())
			j.callersOf(meta, at+"notNamespaces", from.GetSource().GetNotNamespaces())
		}
	}
}

func (j *judge) callersOf(meta Meta, path string, namespaces []string) {
	for i, name := range namespaces {
		part, fits := "", strings.HasPrefix
		switch {
		case strings.HasPrefix(name, "*"):
			part, fits = name[1:], strings.HasSuffix
		case strings.HasSuffix(name, "*"):
			part = name[:len(name)-1]
		case !j.namespaces[name]:
			j.unknownNamespace(meta, index(path, i), name)
			continue
		default:
			continue
		}
		if !j.someNamespace(func(known string) bool { return fits(known, part) }) {
			j.missing(UnknownNamespace, name, meta, index(path, i), "nothing is known of a namespace that %s stands for; %s", name, j.knownNamespaces())
		}
	}
}

func (j *judge) someNamespace(fits func(string) bool) bool {
	for known := range j.namespaces {
		if fits(known) {
			return true
		}
	}
	return false
}

// guards adds notes about the selector of a policy. In the root namespace its labels may be those of any namespace.
func (j *judge) guards(meta Meta, labels map[string]string) {
	const selector = "spec.selector.matchLabels"
	if meta.Namespace == j.mesh.settings.RootNamespace() {
		j.selector(meta, selector, labels, "")
		return
	}
	if len(labels) == 0 && !j.selected.inhabited(meta.Namespace) {
		j.note(EmptySelector, meta, "", "no workload that is known has namespace %s: this has no effect until one comes", meta.Namespace)
	}
	if j.selector(meta, selector, labels, meta.Namespace) {
		j.proxies(meta, selector, labels, j.inside[meta.Namespace])
	}
}
