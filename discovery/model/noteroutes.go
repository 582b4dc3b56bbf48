package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Notes about the routing of requests: VirtualServices, and the hosts that Sidecars import.

func (j *judge) virtualService(meta Meta, v *networking.VirtualService) {
	atGateway := false
	for i, gateway := range v.Gateways {
		full := j.domain.QualifyGateway(gateway, meta.Namespace)
		atGateway = atGateway || full != MeshGateway
		j.needs(needGateway, full)
		if !j.gateways[full] {
			j.note(UnknownGateway, meta, index("spec.gateways", i), "gateway %s does not exist", full)
		}
	}
	for i, route := range v.Http {
		d := route.Delegate
		if d == nil {
			continue
		}
		j.needs(needDelegate, delegateKey(d, meta.Namespace))
		if !j.delegates[delegateKey(d, meta.Namespace)] {
			j.note(UnknownDelegate, meta, index("spec.http", i)+".delegate",
				"VirtualService %s does not exist, or is not a delegate", delegateKey(d, meta.Namespace))
		}
	}
	if !atGateway {
		j.meshHosts(meta, v)
	}
	if !atGateway || slices.Contains(v.Gateways, MeshGateway) {
		j.foreignHosts(meta, v)
		j.takenSubnets(meta, v)
	}
	j.gatewayHosts(meta, v)
	for d, path := range destinations(v) {
		j.destination(meta, d, path)
		j.anyPort(meta, v, d, path)
		if !atGateway {
			j.hidden(meta, d, path)
		}
	}
	j.tokens(meta, v)
	j.exportTo(meta, v.ExportTo)
}

// meshHosts checks the hosts of rules that apply to sidecars. A host of another domain may be a virtual one that
// clients write into their Host header, so it gets no note, unless it would be a service in the mesh's domain, or a
// service's host with one letter wrong; the short or full name of a service must be that of a service.
func (j *judge) meshHosts(meta Meta, v *networking.VirtualService) {
	var bytes *Service
	for i, short := range v.Hosts {
		host := j.domain.Qualify(short, meta.Namespace)
		s := j.service(host)
		if s == nil {
			j.needs(needHosts, "") // to find a similar one
		}
		switch {
		case s == nil && j.inDomain(host) != "":
			j.unknownHost(meta, index("spec.hosts", i), host, "requests for "+j.inDomain(host)+" do not follow these routes")
		case s == nil && j.similar.shorter(host) != "" && !j.covered(host):
			j.note(UnknownHost, meta, index("spec.hosts", i), "no service has the host %s, which the DNS of its registry may answer: only requests to port 80 follow "+
				"these routes; want %s, and a subset where a label stands for a tag", host, j.similar.shorter(host))
		case s == nil && j.domain.has(host) && !j.covered(host):
			j.unknownHost(meta, index("spec.hosts", i), host, "nobody follows these routes")
		case s == nil && j.similar.slip(host) != "" && !j.covered(host):
			j.missing(UnknownHost, host, meta, index("spec.hosts", i), "no service has the host %s: of the requests for it only those to port 80 follow "+
				"these routes, and those for %s do not; did you mean %s?", host, j.similar.slip(host), j.similar.slip(host))
		case s != nil && !slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Protocol.IsHTTP() || p.Protocol == Unknown }):
			bytes = s
			continue
		}
		if s != nil {
			return // some host takes HTTP
		}
	}
	if bytes != nil && len(v.Http) > 0 && len(bytes.Ports) > 0 {
		j.missing(NotHTTP, bytes.Host, meta, "spec.http", "no port of %s is HTTP, port %d is %s: nobody follows these routes; "+
			"want tcp or tls routes, or another protocol of the port", bytes.Host, bytes.Ports[0].Number, bytes.Ports[0].Protocol)
	}
}

// covered reports whether a wildcard matches some service, or a wildcard service matches the host. It returns true if
// the mesh has no services at all: the configuration is then checked without the services that it is for.
func (j *judge) covered(host string) bool {
	j.needs(needHosts, "")
	if len(j.mesh.services) == 0 || j.service(host) != nil {
		return true
	}
	if IsWildcard(host) {
		return slices.ContainsFunc(j.mesh.services, func(s *Service) bool { return HostMatches(host, s.Host) })
	}
	return slices.ContainsFunc(j.similar.wildcards(), func(wildcard string) bool { return HostMatches(wildcard, host) })
}

func (j *judge) unknownHost(meta Meta, path, host, so string) {
	j.needs(needHosts, "") // to find a similar one
	want := "want a ServiceEntry that declares it"
	if near := cmp.Or(j.inDomain(host), j.similar.shorter(host), j.similar.host(host)); near != "" {
		want = "did you mean " + near + "?"
	}
	j.missing(UnknownHost, host, meta, path, "no service has the host %s: %s; %s", host, so, want)
}

// inDomain returns the host of the service that a host NAME.NAMESPACE.svc.SUFFIX would be with the mesh's domain as its
// suffix, or "" if there is no such service, or if it has that suffix.
func (j *judge) inDomain(host string) string {
	service, suffix, ok := strings.Cut(host, svc)
	name, namespace, two := strings.Cut(service, ".")
	if !ok || !two || suffix == j.domain.String() {
		return ""
	}
	own := j.domain.Host(name, namespace)
	if j.service(own) == nil {
		return ""
	}
	return own
}

func (j *judge) destination(meta Meta, d *networking.Destination, path string) {
	host := j.domain.Qualify(d.Host, meta.Namespace)
	so := "requests are answered 503"
	switch {
	case strings.Contains(path, ".mirror"):
		so = "nothing is mirrored"
	case !strings.HasPrefix(path, "spec.http"):
		so = "connections are closed"
	}
	service := j.service(host)
	if service == nil {
		if !j.noServices() {
			j.unknownHost(meta, path+".host", host, so)
		} else if d.Subset != "" && j.hasPolicy(host) {
			j.toSubset(meta, path, host, d.Subset, so)
		}
		return
	}
	if service.AliasOf != "" {
		host = service.AliasOf
		service = j.service(host)
	}
	if port := d.GetPort().GetNumber(); port != 0 {
		if _, ok := service.Port(port); !ok {
			j.missing(UnknownPort, host, meta, path+".port.number", "%s has no port %d: %s; it has %s", host, port, so, ports(service))
		}
	}
	if d.Subset != "" {
		j.toSubset(meta, path, host, d.Subset, so)
	}
}

// toSubset adds a note if no DestinationRule of a host has the subset, with those that it has.
func (j *judge) toSubset(meta Meta, path, host, name, so string) {
	names := j.subsets(host)
	if slices.Contains(names, name) {
		return
	}
	want := "want a DestinationRule of it that has this subset, or a destination without one"
	if more := len(names) - maxNamed; more > 0 {
		want = fmt.Sprintf("it has %s and %d more", strings.Join(names[:maxNamed], ", "), more)
	} else if len(names) > 0 {
		want = "it has " + strings.Join(names, ", ")
	}
	j.note(UnknownSubset, meta, path+".subset", "no DestinationRule of %s has a subset %s: %s; %s", host, name, so, want)
}

// hidden adds a note if a destination of sidecars' routes is a service that their namespace does not see.
func (j *judge) hidden(meta Meta, d *networking.Destination, path string) {
	host := j.domain.Qualify(d.Host, meta.Namespace)
	claims := j.claims(host)
	if len(claims) == 0 || slices.ContainsFunc(claims, func(s *Service) bool { return j.mesh.serviceVisible(s, meta.Namespace) }) {
		return
	}
	j.note(UnknownHost, meta, path+".host", "%s is not exported to namespace %s: its clients do not reach it by this route; want exportTo of the service, of namespace %s, to have it",
		host, meta.Namespace, claims[0].Namespace)
}

// anyPort adds a note if a destination of HTTP names none of a service's several ports, and clients dial another host:
// the port that they dial there is then used, which the service may not have.
func (j *judge) anyPort(meta Meta, v *networking.VirtualService, d *networking.Destination, path string) {
	s := j.service(j.domain.Qualify(d.Host, meta.Namespace))
	if s == nil || d.GetPort().GetNumber() != 0 || strings.Contains(path, ".mirror") {
		return
	}
	if s.AliasOf != "" {
		s = j.service(s.AliasOf)
	}
	number := 0
	for _, p := range s.Ports {
		if p.Protocol != UDP {
			number++
		}
	}
	if number < 2 || slices.ContainsFunc(v.Hosts, func(host string) bool { return HostMatches(j.domain.Qualify(host, meta.Namespace), s.Host) }) {
		return
	}
	j.note(AnyPort, meta, path+".port", "is missing, and %s has several ports, %s: requests go to the one with the number that clients dial, "+
		"if there is one; want one of them", s.Host, ports(s))
}

func ports(s *Service) string {
	var out []string
	for _, p := range s.Ports {
		out = append(out, fmt.Sprint(p.Number))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (j *judge) hasPolicy(host string) bool {
	j.needs(needPolicies, host)
	for _, rules := range j.mesh.destinationRules {
		for range rules.matching(host) {
			return true
		}
	}
	return false
}

// maxNamed bounds the names of a note.
const maxNamed = 10

// subsets are those of the DestinationRules of a host, by name.
func (j *judge) subsets(host string) (names []string) {
	j.needs(needPolicies, host)
	for _, rules := range j.mesh.destinationRules {
		for _, all := range rules.matching(host) {
			for _, r := range all {
				for _, s := range r.Spec.Subsets {
					names = append(names, s.GetName())
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func hasSubset(r *Config[*networking.DestinationRule], name string) bool {
	return slices.ContainsFunc(r.Spec.Subsets, func(s *networking.Subset) bool { return s.GetName() == name })
}

// sidecar checks the hosts that a Sidecar imports, the workloads that it selects, and the clients of ports that
// terminate TLS.
func (j *judge) sidecar(meta Meta, s *networking.Sidecar) {
	const selector = "spec.workloadSelector.labels"
	if labels := s.GetWorkloadSelector().GetLabels(); j.selector(meta, selector, labels, meta.Namespace) {
		j.proxies(meta, selector, labels, slices.DeleteFunc(slices.Clone(j.inside[meta.Namespace]), func(w Proxy) bool { return w.Gateway }))
	}
	j.sidecarPorts(meta, s)
	for i, l := range s.Egress {
		for k, entry := range l.Hosts {
			path := index(index("spec.egress", i)+".hosts", k)
			namespace, pattern, _ := strings.Cut(entry, "/")
			if namespace == "." {
				namespace = meta.Namespace
			}
			switch {
			case namespace == "~" || len(j.mesh.services) == 0:
			case namespace != "*" && !j.namespaces[namespace]:
				j.unknownNamespace(meta, path, namespace)
			case pattern != "*" && !j.imports(namespace, j.domain.Qualify(pattern, meta.Namespace), meta.Namespace):
				j.missing(UnknownHost, j.domain.Qualify(pattern, meta.Namespace), meta, path, "stands for no service that namespace %s sees: nothing is imported by it; "+
					"want a host of a ServiceEntry of namespace %s", meta.Namespace, namespace)
			}
		}
	}
	for i, l := range s.Ingress {
		if l.Tls != nil {
			j.plainClients(meta, index("spec.ingress", i)+".tls", s.GetWorkloadSelector().GetLabels(), l.GetPort().GetNumber())
		}
	}
}

// imports reports whether a host pattern of a Sidecar in namespace own matches a service or a VirtualService.
func (j *judge) imports(namespace, pattern, own string) bool {
	visible := func(s *Service) bool {
		return (namespace == "*" || s.Namespace == namespace) && HostMatches(pattern, s.Host) && j.mesh.serviceVisible(s, own)
	}
	if !IsWildcard(pattern) {
		if slices.ContainsFunc(j.mesh.claims(pattern), visible) {
			return true
		}
	} else if slices.ContainsFunc(j.mesh.services, visible) {
		return true
	}
	return slices.ContainsFunc(j.mesh.virtualServices, func(v *Config[*networking.VirtualService]) bool {
		return (namespace == "*" || v.Namespace == namespace) && slices.ContainsFunc(v.Spec.Hosts,
			func(host string) bool { return HostMatches(pattern, host) || HostMatches(host, pattern) })
	})
}
