package model

import (
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Notes about objects that decide over what belongs to other namespaces. They are served, as by Istio, and named to both
// owners.

// foreignHosts adds notes about hosts of a VirtualService for sidecars that are services of other namespaces, whatever else
// declares them: the own namespace's ServiceEntry of the host changes nothing for the clients of others. Only what proxies of other namespaces see counts: a client's own routes are its own affair. The root namespace is that
// of the mesh's owner.
func (j *judge) foreignHosts(meta Meta, v *networking.VirtualService) {
	exportTo := orDefault(v.ExportTo, j.mesh.settings.Config.GetDefaultVirtualServiceExportTo())
	private := len(exportTo) > 0 && !slices.ContainsFunc(exportTo, func(to string) bool { return to != "." && to != meta.Namespace && to != "~" })
	if private || meta.Namespace == j.mesh.settings.RootNamespace() {
		return
	}
	foreign := func(s *Service) bool { return s.Namespace != meta.Namespace }
	for i, short := range v.Hosts {
		host := j.domain.Qualify(short, meta.Namespace)
		if !IsWildcard(host) {
			for _, s := range j.claims(host) {
				if !foreign(s) {
					continue
				}
				j.note(ForeignHost, meta, index("spec.hosts", i), "%s is a service of namespace %s: these are the routes of all who call it and see this; "+
					"want exportTo [\".\"] for routes of the own clients", host, s.Namespace)
				j.note(ForeignHost, j.declaredBy(s), "", "has the routes of %s, of another namespace, for all proxies that see it", name(meta))
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

// takenAddresses adds notes about addresses, or ranges, that belong to services and Pods of other namespaces: see TakenFrom.
func (j *judge) takenAddresses(meta Meta, path string, addresses []string, ports ...uint32) {
	if len(addresses) > 0 {
		j.fleeting = true // it depends on all services and workloads
	}
	for i, text := range addresses {
		var first *addressOwner
		found := 0
		j.mesh.eachTaken([]string{text}, meta.Namespace, func(o addressOwner) {
			if !slices.ContainsFunc(ports, func(port uint32) bool { return o.at(port, "") }) {
				return
			}
			if found++; found == 1 {
				first = &o
			}
			if found <= maxHosts {
				j.note(TakenAddress, j.ownerOf(o), "", "%s, of another namespace, has its address %s: connections to it do not go there", name(meta), o.ip)
			}
		})
		if first != nil {
			j.note(TakenAddress, meta, index(path, i), "%s has %d addresses of other namespaces, such as %s of %s: connections to these do not come here; "+
				"want addresses that no Service and no Pod has", text, found, first.ip, name(j.ownerOf(*first)))
		}
	}
}

// takenSubnets adds these notes about destinationSubnets of routes.
func (j *judge) takenSubnets(meta Meta, v *networking.VirtualService) {
	if len(DestinationSubnets(v)) == 0 {
		return
	}
	var ports []uint32
	for _, host := range v.Hosts {
		for _, s := range j.claims(j.domain.Qualify(host, meta.Namespace)) {
			for _, p := range s.Ports {
				if !p.Protocol.IsHTTP() && p.Protocol != UDP {
					ports = append(ports, p.Number)
				}
			}
		}
	}
	for i, r := range v.GetTcp() {
		for k, match := range r.Match {
			j.takenAddresses(meta, index(index("spec.tcp", i)+".match", k)+".destinationSubnets", match.GetDestinationSubnets(), ports...)
		}
	}
	for i, r := range v.GetTls() {
		for k, match := range r.Match {
			j.takenAddresses(meta, index(index("spec.tls", i)+".match", k)+".destinationSubnets", match.GetDestinationSubnets(), ports...)
		}
	}
}

func (j *judge) ownerOf(o addressOwner) Meta {
	if o.service != nil {
		return j.declaredBy(o.service)
	}
	return Meta{Kind: "Pod", Namespace: o.pod.Namespace, Name: o.pod.Name, Origin: o.pod.Origin}
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
		hosts, known := j.hostsOf(g)
		for i, short := range v.Hosts {
			if !known[short] && !opens(g, hosts, meta.Namespace, short) && !opens(g, hosts, meta.Namespace, j.domain.Qualify(short, meta.Namespace)) {
				j.note(UnservedHost, meta, index("spec.hosts", i), "no server of Gateway %s has a host for %s of namespace %s: requests for it "+
					"do not follow these routes there; the Gateway has %s", full, short, meta.Namespace, strings.Join(hosts[:min(len(hosts), maxHosts)], ", "))
			}
		}
	}
}

// opens reports whether the Gateway g, whose servers have hosts, takes requests for a host of a VirtualService in namespace.
func opens(g *Config[*networking.Gateway], hosts []string, namespace, host string) bool {
	return slices.ContainsFunc(hosts, func(entry string) bool {
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

// hostsOf returns the hosts of the servers of a Gateway, and those that are for all namespaces as a set: many VirtualServices may ask.
func (j *judge) hostsOf(g *Config[*networking.Gateway]) (list []string, forAll map[string]bool) {
	if known, found := j.gatewayHosting[g]; found {
		return known.list, known.forAll
	}
	forAll = map[string]bool{}
	for _, s := range g.Spec.Servers {
		for _, host := range s.Hosts {
			list = append(list, host)
			forAll[strings.TrimPrefix(host, "*/")] = true
		}
	}
	if j.gatewayHosting == nil {
		j.gatewayHosting = map[*Config[*networking.Gateway]]hosting{}
	}
	j.gatewayHosting[g] = hosting{list, forAll}
	return list, forAll
}

type hosting struct {
	list   []string
	forAll map[string]bool
}
