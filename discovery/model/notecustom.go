package model

import (
	"fmt"
	"maps"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
)

// Notes about CUSTOM policies about which nobody is asked.

// customs are the CUSTOM policies of a namespace.
type customs struct {
	all       []Policy
	providers map[string]bool
}

func (p Policy) custom() bool {
	return p.Tokens == nil && p.Spec.GetAction() == security.AuthorizationPolicy_CUSTOM && !p.DryRun
}

// customPolicy adds notes if nobody can be asked about what a policy names.
func (j *judge) customPolicy(meta Meta, p *security.AuthorizationPolicy) {
	labels, name := p.GetSelector().GetMatchLabels(), p.GetProvider().GetName()
	denied := func(where, why string) {
		j.note(ClosedPolicy, meta, "spec.provider.name", "%s: at %s what its rules name is denied", why, where)
	}
	namespaces, opens, plain := []string{meta.Namespace}, false, false
	var host string
	var port uint32
	if meta.Namespace == j.mesh.settings.RootNamespace() {
		namespaces = append(namespaces, slices.Sorted(maps.Keys(j.inside))...)
	}
	for _, namespace := range namespaces {
		a, fault := j.mesh.Authorizer(name, namespace)
		if fault != "" {
			denied(j.guarded(meta, labels), fault)
			return
		}
		if a.Provider.GetEnvoyExtAuthzGrpc() != nil && !plain {
			plain = j.speaksHTTP1(a, namespace)
		}
		host, port = a.Host, a.Port
		opens = a.Provider.GetEnvoyExtAuthzHttp().GetFailOpen() || a.Provider.GetEnvoyExtAuthzGrpc().GetFailOpen()
	}
	if plain {
		j.note(NotHTTP2, meta, "spec.provider.name", "%q is asked by gRPC, and port %d of %s is not one of HTTP/2: no question arrives; want the port named grpc or http2, or a "+
			"DestinationRule of it with h2UpgradePolicy UPGRADE", name, port, host)
	}
	if slices.ContainsFunc(p.Rules, AboutHTTP) {
		j.undeclared(meta, labels, "spec.rules", "is closed, for it may be a request that the rules name")
	}
	if opens {
		j.note(FailsOpen, meta, "spec.provider.name", "%q has failOpen: while it cannot be asked, what the rules name is let in; want failOpen false to keep it out", name)
	}
	if other, found := j.rival(meta, p); found {
		denied(fmt.Sprintf("workloads that both %s and %s/%s name", meta.Name, other.Namespace, other.Name),
			fmt.Sprintf("the provider is %q, and %q of the other policy; a workload has one at most", name, other.Spec.GetProvider().GetName()))
	}
	for _, namespace := range namespaces {
		for _, w := range j.inside[namespace] {
			if w.Proxyless && Selects(labels, w.Labels) {
				denied(fmt.Sprintf("%s, a gRPC server,", w.Name), "gRPC's library asks nobody")
				return
			}
		}
	}
}

// speaksHTTP1 reports whether proxies of a namespace speak no HTTP/2 to a provider.
func (j *judge) speaksHTTP1(a Authorizer, from string) bool {
	p, _ := j.mesh.VisibleService(a.Host, from).Port(a.Port)
	if p.Protocol.IsHTTP2() || p.Protocol.IsHTTP() && j.mesh.settings.Config.GetH2UpgradePolicy() == meshconfig.MeshConfig_UPGRADE {
		return false
	}
	for _, rules := range j.mesh.destinationRules {
		for _, all := range rules.matching(a.Host) {
			if slices.ContainsFunc(all, func(r *Config[*networking.DestinationRule]) bool { return upgrades(r.Spec.TrafficPolicy) }) {
				return false
			}
		}
	}
	return true
}

func upgrades(p *networking.TrafficPolicy) bool {
	const upgrade = networking.ConnectionPoolSettings_HTTPSettings_UPGRADE
	return p.GetConnectionPool().GetHttp().GetH2UpgradePolicy() == upgrade || slices.ContainsFunc(p.GetPortLevelSettings(),
		func(l *networking.TrafficPolicy_PortTrafficPolicy) bool {
			return l.GetConnectionPool().GetHttp().GetH2UpgradePolicy() == upgrade
		})
}

// rival returns another policy with another provider that may concern the same workload.
func (j *judge) rival(meta Meta, p *security.AuthorizationPolicy) (Policy, bool) {
	if j.customs == nil {
		j.customs = j.mesh.policies.customs()
	}
	name, root := p.GetProvider().GetName(), j.mesh.settings.RootNamespace()
	near := []string{meta.Namespace, root}
	if meta.Namespace == root {
		near = slices.Sorted(maps.Keys(j.customs))
	}
	for _, namespace := range near {
		c := j.customs[namespace]
		if c == nil || len(c.providers) == 1 && c.providers[name] {
			continue
		}
		for _, other := range c.all {
			if other.Spec.GetProvider().GetName() != name && together(p.GetSelector().GetMatchLabels(), other.selector()) {
				return other, true
			}
		}
	}
	return Policy{}, false
}

// together reports whether a workload can have the labels of both.
func together(a, b map[string]string) bool {
	for key, value := range a {
		if other, both := b[key]; both && other != value {
			return false
		}
	}
	return true
}

func (p policies) customs() map[string]*customs {
	out := map[string]*customs{}
	for namespace, n := range p {
		c := &customs{providers: map[string]bool{}}
		for _, list := range append(slices.Collect(maps.Values(n.selected)), n.all) {
			for _, policy := range list {
				if policy.custom() {
					c.all = append(c.all, policy)
					c.providers[policy.Spec.GetProvider().GetName()] = true
				}
			}
		}
		if len(c.all) == 0 {
			continue
		}
		sortPolicies(c.all)
		out[namespace] = c
	}
	return out
}
