package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Notes about policies: policies without effect, and TLS that only one side uses.

func (j *judge) destinationRule(meta Meta, r *networking.DestinationRule) {
	host := j.domain.Qualify(r.Host, meta.Namespace)
	if s := j.service(host); s != nil && s.AliasOf != "" {
		j.note(IgnoredField, meta, "spec.host", "%s is only another name of %s, as its externalName says: clients that see both follow the policy of that, "+
			"and not this one; want host %s", host, s.AliasOf, s.AliasOf)
	}
	if !j.policyCounts(host) {
		j.unknownHost(meta, "spec.host", host, "nothing follows this policy")
	}
	j.exportTo(meta, r.ExportTo)
	const selector = "spec.workloadSelector.matchLabels"
	if labels := r.GetWorkloadSelector().GetMatchLabels(); j.selector(meta, selector, labels, meta.Namespace) {
		j.proxies(meta, selector, labels, j.inside[meta.Namespace])
	}
	top := r.TrafficPolicy
	j.policy(meta, host, "spec.trafficPolicy", top, nil, nil)
	for i, subset := range r.Subsets {
		at := index("spec.subsets", i)
		j.subset(meta, host, at, subset)
		j.policy(meta, host, at+".trafficPolicy", subset.GetTrafficPolicy(), top, subset.GetLabels())
	}
	if r.TrafficPolicy.GetTls() == nil {
		j.tlsDropped(meta, host, r)
	}
	j.serverNames(meta, host, r)
	j.tlsToPlain(meta, host, r)
}

// policyCounts reports whether the host is that of a service, or a wildcard that matches the host of one.
func (j *judge) policyCounts(host string) bool {
	return host == "*" || j.noServices() || j.service(host) != nil ||
		IsWildcard(host) && j.covered(host)
}

// subset adds a note if no endpoint has the labels of the subset.
func (j *judge) subset(meta Meta, host, path string, subset *networking.Subset) {
	if len(subset.GetLabels()) == 0 {
		return
	}
	var example map[string]string
	for _, s := range j.backed(host) {
		if s.Resolution == ResolutionNone {
			return // the endpoints that clients connect to are not known
		}
		for _, e := range s.Endpoints {
			if Selects(subset.Labels, e.Labels) {
				return
			}
			if len(e.Labels) > 0 || example == nil {
				example = e.Labels
				if example == nil {
					example = map[string]string{}
				}
			}
		}
	}
	if example == nil {
		if example = j.templateOf(host); example == nil || j.templateWith(host, subset.Labels) != nil {
			return // a service without endpoints has a note already
		}
	}
	has := "one of its endpoints has no labels"
	if len(example) > 0 {
		has = "one of its endpoints has " + pairs(example)
	}
	if t := j.templateWith(host, subset.Labels); t != nil {
		has = name(t.Meta) + " has these labels, and its " + startedBy(t.Meta) + " have no addresses here"
	}
	j.missing(EmptySubset, host, meta, path+".labels",
		"no endpoint of %s has %s: requests to the subset are answered 503; %s", host, pairs(subset.Labels), has)
}

// pairs formats labels in the way selectors are written.
func pairs(labels map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, key+"="+labels[key])
	}
	return strings.Join(out, ", ")
}

// policy checks one policy. A field that it leaves unset is taken from above; labels are those of a subset.
func (j *judge) policy(meta Meta, host, path string, p, above *networking.TrafficPolicy, labels map[string]string) {
	if p == nil {
		return
	}
	outlier := cmp.Or(p.OutlierDetection, above.GetOutlierDetection(),
		j.mesh.settings.Config.GetDefaultTrafficPolicy().GetOutlierDetection())
	j.failover(meta, path, p.GetLoadBalancer().GetLocalityLbSetting(), outlier)
	j.ejects(meta, host, path, p.OutlierDetection, labels)
	j.anyServer(meta, host, path, p.Tls)
	for i, level := range p.PortLevelSettings {
		at := index(path+".portLevelSettings", i)
		j.failover(meta, at, level.GetLoadBalancer().GetLocalityLbSetting(), level.GetOutlierDetection())
		j.ejects(meta, host, at, level.GetOutlierDetection(), labels)
		j.anyServer(meta, host, at, level.GetTls())
	}
}

func (j *judge) failover(meta Meta, path string, s *networking.LocalityLoadBalancerSetting, outlier *networking.OutlierDetection) {
	if outlier != nil || s.GetEnabled() != nil && !s.GetEnabled().GetValue() {
		return
	}
	field := "failover"
	if len(s.GetFailover()) == 0 {
		field = "failoverPriority"
	}
	if len(s.GetFailover())+len(s.GetFailoverPriority()) > 0 {
		j.note(NeverFailsOver, meta, path+".loadBalancer.localityLbSetting."+field,
			"does nothing without outlierDetection, which finds endpoints that fail; want outlierDetection beside loadBalancer")
	}
}

// ejects adds a note if maxEjectionPercent is too low to eject even one endpoint.
func (j *judge) ejects(meta Meta, host, path string, o *networking.OutlierDetection, labels map[string]string) {
	if o == nil {
		return
	}
	service := j.service(host)
	if service == nil || service.Resolution != ResolutionStatic {
		return
	}
	j.needs(needEndpoints, host)
	n := 0
	for _, e := range service.Endpoints {
		if Selects(labels, e.Labels) {
			n++
		}
	}
	most := int(cmp.Or(o.MaxEjectionPercent, 10)) // Envoy's default
	if n > 0 && most*n < 100 {
		j.note(NeverEjects, meta, path+".outlierDetection",
			"ejects no endpoint: one of %d is %d %%, and maxEjectionPercent is %d; want maxEjectionPercent %d or more",
			n, 100/n, most, (100+n-1)/n)
	}
}

// tlsDropped finds wider policies that this one replaces, and whose TLS settings it does not repeat.
func (j *judge) tlsDropped(meta Meta, host string, r *networking.DestinationRule) {
	namespaces := []string{meta.Namespace}
	j.needs(needPolicies, host)
	for _, s := range j.claims(host) {
		namespaces = append(namespaces, s.Namespace)
	}
	namespaces = append(namespaces, j.mesh.settings.RootNamespace())
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		rules := j.mesh.destinationRules[namespace]
		if rules == nil || meta.Namespace == j.mesh.settings.RootNamespace() && namespace != meta.Namespace {
			continue // policies of the root namespace have the lowest priority
		}
		for wider, all := range rules.matching(host) {
			if namespace == meta.Namespace && wider == host || !speaksTLS(all[0].Spec.GetTrafficPolicy().GetTls()) {
				continue
			}
			j.note(TLSDropped, meta, "spec.trafficPolicy",
				"takes the place of the policy of %s, whose tls %s is not repeated here: connections to %s are plain text; "+
					"want tls here too, or mode DISABLE", name(all[0].Meta), all[0].Spec.TrafficPolicy.Tls.Mode, host)
			return
		}
	}
}

func speaksTLS(t *networking.ClientTLSSettings) bool {
	return t != nil && t.Mode != networking.ClientTLSSettings_DISABLE
}

// asksForTLS reports whether some policy makes clients of a host use TLS.
func (j *judge) asksForTLS(host string) bool {
	j.needs(needPolicies, host)
	for _, rules := range j.mesh.destinationRules {
		for _, all := range rules.matching(host) {
			for _, r := range all {
				policies := []*networking.TrafficPolicy{r.Spec.TrafficPolicy}
				for _, s := range r.Spec.Subsets {
					policies = append(policies, s.GetTrafficPolicy())
				}
				for _, p := range policies {
					if speaksTLS(p.GetTls()) || slices.ContainsFunc(p.GetPortLevelSettings(),
						func(l *networking.TrafficPolicy_PortTrafficPolicy) bool { return speaksTLS(l.GetTls()) }) {
						return true
					}
				}
			}
		}
	}
	return false
}

// plainClients finds services whose clients send plain text to a port that terminates TLS.
func (j *judge) plainClients(meta Meta, path string, selector map[string]string, number uint32) {
	for _, s := range j.mesh.services {
		if s.Namespace != meta.Namespace {
			continue
		}
		for _, p := range s.Ports {
			serves := func(e Endpoint) bool { return Selects(selector, e.Labels) && e.PortOn(p) == number }
			if p.Protocol.IsTLS() || !slices.ContainsFunc(s.Endpoints, serves) || j.asksForTLS(s.Host) {
				continue
			}
			j.note(PlainToTLS, meta, path, "clients of %s speak plain text to this port: want a DestinationRule with tls for it", s.Host)
			return
		}
	}
}

func (j *judge) serviceEntry(meta Meta, s *networking.ServiceEntry) {
	j.exportTo(meta, s.ExportTo)
	j.localEntry(meta, s)
	j.foreignAddresses(meta, s)
	var bytes []uint32 // ports whose connections are told by address
	for _, p := range s.Ports {
		if protocol, _ := ParseProtocol(p.GetProtocol()); !protocol.IsHTTP() && protocol != UDP {
			bytes = append(bytes, p.GetNumber())
		}
	}
	j.takenAddresses(meta, "spec.addresses", s.Addresses, bytes...)
	for i, p := range s.Ports {
		j.reserved(meta, index("spec.ports", i)+".number", p.GetNumber())
		j.servicePort(meta, index("spec.ports", i)+".number", s, p)
		protocol, _ := ParseProtocol(p.GetProtocol())
		const https = 443
		if s.Location != networking.ServiceEntry_MESH_EXTERNAL || !protocol.IsHTTP() || p.Number != https ||
			p.TargetPort != 0 && p.TargetPort != https {
			continue
		}
		if slices.ContainsFunc(s.Endpoints, func(e *networking.WorkloadEntry) bool { return e.GetPorts()[p.Name] != 0 }) ||
			slices.ContainsFunc(s.Hosts, func(host string) bool { return j.asksForTLS(strings.ToLower(host)) }) {
			continue
		}
		j.note(PlainToTLS, meta, index("spec.ports", i)+".protocol", "is %s: clients speak plain text to port 443, "+
			"where servers expect TLS; want HTTPS, or a DestinationRule with tls for the host", p.Protocol)
	}
}
