package model

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"
)

// Notes about PeerAuthentications: policies that select nothing, that another one covers, or that close what cannot be opened.

func (j *judge) peerAuthentication(o *Object, p *security.PeerAuthentication) {
	labels := p.GetSelector().GetMatchLabels()
	const selector = "spec.selector.matchLabels"
	root := o.Namespace == j.mesh.settings.RootNamespace()
	switch {
	case root && len(labels) > 0:
		j.note(IgnoredField, o.Meta, "spec.selector", "selects nothing: %s is the root namespace, whose policy is for the whole mesh; "+
			"want no selector, or the namespace of the workloads", o.Namespace)
		return
	case len(labels) > 0 && j.selector(o.Meta, selector, labels, o.Namespace):
		j.proxies(o.Meta, selector, labels, j.inside[o.Namespace])
	}
	if o.Closed {
		what := "all of namespace " + o.Namespace
		switch {
		case root:
			what = "the whole mesh"
		case len(labels) > 0:
			what = "the workloads of namespace " + o.Namespace + " with " + pairs(labels)
		}
		j.note(ClosedPolicy, o.Meta, "", "has an error, and no good form of it is known: until it is mended, it is STRICT for %s", what)
	}
	if !o.ofAny() {
		j.peerRivals(o.Meta, labels)
	}
	j.uncertified(o.Meta, p)
}

// peerRivals adds a note about an older policy of the same scope.
func (j *judge) peerRivals(meta Meta, labels map[string]string) {
	selected := j.selected.workloads(meta.Namespace, labels)
	for _, first := range j.peers[meta.Namespace] {
		own := first.Spec.GetSelector().GetMatchLabels()
		switch {
		case first.Name == meta.Name:
			return // the rest is younger
		case maps.Equal(own, labels):
			j.conflict(meta, first.Meta, "spec", "the same workloads follow %s, %s", name(first.Meta), notUsed)
			return
		case len(own) == 0 || len(labels) == 0:
			continue
		}
		for _, w := range selected {
			if Selects(own, w.labels) {
				j.conflict(meta, first.Meta, "spec.selector", "workloads with %s follow %s, %s for them", pairs(w.labels), name(first.Meta), notUsed)
				break
			}
		}
	}
}

// uncertified adds a note about connected sidecars that close ports because of this policy: it says STRICT, and they have no
// certificate.
func (j *judge) uncertified(meta Meta, p *security.PeerAuthentication) {
	var names []string
	for _, w := range j.connected {
		policy := j.mesh.Peers(w.Namespace).Of(w.Labels)
		if w.Certificate || w.Gateway || p != policy.Root && p != policy.Namespace && p != policy.Workload {
			continue
		}
		if slices.ContainsFunc(append(policy.Ports(), 0), func(port uint32) bool {
			mode, by := policy.decide(port)
			return mode == PeerStrict && by == p
		}) {
			names = append(names, w.Namespace+"/"+cmp.Or(w.Name, "?"))
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	names = slices.Compact(names)
	shown := strings.Join(names[:min(len(names), maxProxies)], ", ")
	if more := len(names) - maxProxies; more > 0 {
		shown += " and " + strconv.Itoa(more) + " more"
	}
	j.note(NoCertificate, meta, "spec", "STRICT closes ports of connected proxies that have no certificate, %s: nobody reaches them; "+
		"want a certificate for their agents (--certDir), or mode PERMISSIVE", shown)
}
