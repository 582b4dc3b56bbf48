package model

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// tokens adds a note for the first match about a claim of a token at a Gateway whose workloads no RequestAuthentication can be for: they
// read no token.
func (j *judge) tokens(meta Meta, v *networking.VirtualService) {
	path := claimMatch(v)
	if path == "" {
		return
	}
	for _, name := range v.Gateways {
		full := j.domain.QualifyGateway(name, meta.Namespace)
		j.needs(needGateway, full)
		g := j.specs[full]
		if g == nil || slices.ContainsFunc(j.readers, func(selector map[string]string) bool { return together(selector, g.Spec.Selector) }) {
			continue
		}
		j.note(IgnoredField, meta, path, "no RequestAuthentication is for the workloads of Gateway %s, so they read no token, and no request has the claims of a token; "+
			"want a RequestAuthentication with the labels %s", full, pairs(g.Spec.Selector))
	}
}

// claimMatch returns the path of the first match about a claim, "" without one.
func claimMatch(v *networking.VirtualService) string {
	claim := func(name string) bool {
		path, _ := ParseRoutingClaim(name)
		return path != nil
	}
	for i, route := range v.Http {
		for k, m := range route.GetMatch() {
			at := index(index("spec.http", i)+".match", k)
			switch {
			case slices.ContainsFunc(slices.Collect(maps.Keys(m.GetHeaders())), claim):
				return at + ".headers"
			case slices.ContainsFunc(slices.Collect(maps.Keys(m.GetWithoutHeaders())), claim):
				return at + ".withoutHeaders"
			}
		}
	}
	return ""
}
