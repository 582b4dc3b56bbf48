package model

import (
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Notes about objects that decide over what belongs to other namespaces. They are served, as by Istio, and named to both
// owners.

// foreignHosts adds notes about hosts of a VirtualService for sidecars that are registered services of other namespaces.
// Only what proxies of other namespaces see counts: a client's own routes are its own affair. The root namespace is that
// of the mesh's owner.
func (j *judge) foreignHosts(meta Meta, v *networking.VirtualService) {
	exportTo := orDefault(v.ExportTo, j.mesh.settings.Config.GetDefaultVirtualServiceExportTo())
	private := len(exportTo) > 0 && !slices.ContainsFunc(exportTo, func(to string) bool { return to != "." && to != meta.Namespace && to != "~" })
	if private || meta.Namespace == j.mesh.settings.RootNamespace() {
		return
	}
	foreign := func(s *Service) bool { return s.Registry != "" && s.Namespace != meta.Namespace }
	for i, short := range v.Hosts {
		host := j.domain.Qualify(short, meta.Namespace)
		if !IsWildcard(host) {
			if claims := j.claims(host); len(claims) > 0 && !slices.ContainsFunc(claims, func(s *Service) bool { return !foreign(s) }) {
				owner := j.declaredBy(claims[0])
				j.note(ForeignHost, meta, index("spec.hosts", i), "%s is a service of namespace %s: these are the routes of all who call it and see this; "+
					"want exportTo [\".\"] for routes of the own clients", host, claims[0].Namespace)
				j.note(ForeignHost, owner, "", "has the routes of %s, of another namespace, for all proxies that see it", name(meta))
			}
			continue
		}
		j.fleeting = true // it depends on all services
		at := slices.IndexFunc(j.mesh.services, func(s *Service) bool { return foreign(s) && HostMatches(host, s.Host) })
		if at >= 0 {
			j.note(ForeignHost, meta, index("spec.hosts", i), "%s stands for services of other namespaces, such as %s: these are the routes of all "+
				"who call them and see this, where no narrower host has routes; want exportTo [\".\"], or hosts of the own namespace", host, j.mesh.services[at].Host)
		}
	}
}

// foreignAddresses adds notes about endpoints of a ServiceEntry at addresses of other namespaces' Pods.
func (j *judge) foreignAddresses(meta Meta, s *networking.ServiceEntry) {
	for i, e := range s.Endpoints {
		j.foreignAddress(meta, index("spec.endpoints", i)+".address", e.GetAddress())
	}
}

func (j *judge) foreignAddress(meta Meta, path, address string) {
	ip, err := netip.ParseAddr(address)
	if err != nil || meta.Namespace == j.mesh.settings.RootNamespace() {
		return
	}
	j.needs(needWorkloads, "")
	var found *Workload
	for _, residents := range j.mesh.residents {
		for _, w := range residents.byAddress(Claim{Addresses: []netip.Addr{ip.Unmap()}}) {
			if w.Registry == "" || w.OnNode {
				continue
			}
			if w.Namespace == meta.Namespace {
				return
			}
			if found == nil || w.Namespace+"/"+w.Name < found.Namespace+"/"+found.Name {
				found = w
			}
		}
	}
	if found == nil {
		return
	}
	pod := Meta{Kind: "Pod", Namespace: found.Namespace, Name: found.Name, Origin: found.Origin}
	j.note(ForeignAddress, meta, path, "%s is the address of %s, of another namespace: want a Service of that namespace", address, name(pod))
	j.note(ForeignAddress, pod, "", "%s, of another namespace, has its address %s as an endpoint", name(meta), address)
}

// gatewayHosts adds notes about hosts of a VirtualService that no server of one of its Gateways has: such a gateway
// does not have these routes.
func (j *judge) gatewayHosts(meta Meta, v *networking.VirtualService) {
	for _, gateway := range v.Gateways {
		full := j.domain.QualifyGateway(gateway, meta.Namespace)
		j.needs(needGateway, full)
		g := j.specs[full]
		if g == nil {
			continue // the mesh, or a note of its own
		}
		hosts := hostsOf(g)
		for i, short := range v.Hosts {
			if !opens(g, meta.Namespace, short) && !opens(g, meta.Namespace, j.domain.Qualify(short, meta.Namespace)) {
				j.note(UnservedHost, meta, index("spec.hosts", i), "no server of Gateway %s has a host for %s of namespace %s: requests for it "+
					"do not follow these routes there; the Gateway has %s", full, short, meta.Namespace, strings.Join(hosts[:min(len(hosts), maxHosts)], ", "))
			}
		}
	}
}

// opens reports whether a server of the Gateway g takes requests for a host of a VirtualService in namespace.
func opens(g *Config[*networking.Gateway], namespace, host string) bool {
	return slices.ContainsFunc(hostsOf(g), func(entry string) bool {
		from, pattern, scoped := strings.Cut(entry, "/")
		switch {
		case !scoped:
			from, pattern = "*", entry
		case from == ".":
			from = g.Namespace
		}
		host, pattern := strings.ToLower(host), strings.ToLower(pattern)
		return (from == "*" || from == namespace) && (HostMatches(pattern, host) || HostMatches(host, pattern))
	})
}

// maxHosts is how many hosts of a Gateway a note names.
const maxHosts = 10

func hostsOf(g *Config[*networking.Gateway]) (out []string) {
	for _, s := range g.Spec.Servers {
		out = append(out, s.Hosts...)
	}
	return out
}
