package config

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func serviceEntryServed() served {
	return served{fields: []string{
		"hosts", "location", "resolution", "exportTo",
		"ports.number", "ports.name", "ports.protocol", "ports.targetPort",
		"endpoints.address", "endpoints.ports", "endpoints.labels", "endpoints.weight",
	}}
}

func serviceEntry(f field, s *networking.ServiceEntry) {
	f.at("hosts").required(len(s.Hosts))
	hosts := unique{}
	for i, host := range s.Hosts {
		f.at("hosts").item(i).host(host, true)
		hosts.add(f.at("hosts").item(i), strings.ToLower(host))
	}
	servicePorts(f.at("ports"), s.Ports)
	f.at("exportTo").exportTo(s.ExportTo)

	switch s.Resolution {
	case networking.ServiceEntry_STATIC:
		if len(s.Endpoints) == 0 {
			f.at("endpoints").warnf("is empty: every request is answered 503")
		}
	case networking.ServiceEntry_DNS:
		if wildcard := slices.IndexFunc(s.Hosts, isWildcard); wildcard >= 0 && len(s.Endpoints) == 0 {
			f.at("hosts").item(wildcard).errorf("is %q: without endpoints the host is resolved, want a full name", s.Hosts[wildcard])
		}
	default:
		f.at("resolution").errorf("is %s, which is not supported, want STATIC or DNS", s.Resolution)
	}
	for i, e := range s.Endpoints {
		endpoint(f.at("endpoints").item(i), e, s)
	}
}

func isWildcard(host string) bool { return strings.HasPrefix(host, "*") }

func servicePorts(f field, ports []*networking.ServicePort) {
	f.required(len(ports))
	names, numbers := unique{}, map[uint32]bool{}
	for i, p := range ports {
		at := f.item(i)
		at.at("number").port(p.Number)
		at.at("name").label(p.Name)
		at.at("protocol").protocol(p.Protocol)
		if p.TargetPort != 0 {
			at.at("targetPort").port(p.TargetPort)
		}
		names.add(at.at("name"), p.Name)
		if numbers[p.Number] {
			at.at("number").errorf("is %d, which is there already", p.Number)
		}
		numbers[p.Number] = true
	}
}

func endpoint(f field, e *networking.WorkloadEntry, s *networking.ServiceEntry) {
	switch _, err := netip.ParseAddr(e.Address); {
	case e.Address == "":
		f.at("address").errorf("is missing")
	case err == nil:
	case s.Resolution == networking.ServiceEntry_DNS:
		f.at("address").host(e.Address, false)
	default:
		f.at("address").errorf("is %q, want an IP address under resolution %s", e.Address, s.Resolution)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Ports)) {
		if !slices.ContainsFunc(s.Ports, func(p *networking.ServicePort) bool { return p.GetName() == name }) {
			f.at("ports").at(name).errorf("is not the name of one of the service's ports")
		}
		f.at("ports").at(name).port(e.Ports[name])
	}
	f.at("labels").labels(e.Labels)
}
