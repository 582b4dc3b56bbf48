package model

import (
	"fmt"
	"sort"

	networking "istio.io/api/networking/v1alpha3"
)

// maxLocal is how many endpoints of one object are named; the others are counted.
const maxLocal = 10

// withholding says why an endpoint does not go to all proxies.
type withholding struct {
	text   string // "" if it goes to all
	nobody bool   // no proxy gets it; else it goes to the sidecars of its namespace
}

func (s Settings) withholding(address string, port uint32, namespace string) withholding {
	local, root := LocalAddress(address), namespace == s.RootNamespace()
	what := fmt.Sprintf("is %q, %s", address, local)
	gateway, foreign, same := Recipient{Gateway: true}, Recipient{}, Recipient{Same: true}
	const others = ": no gateway and no sidecar of another namespace gets this endpoint; want an address of the network"
	switch {
	case local == AgentPath:
		return withholding{what + ": no proxy gets this endpoint", true}
	case s.Withheld(local, port, root, same):
		return withholding{fmt.Sprintf("%s, at port %d, which proxies and their agents have for themselves: no proxy gets this endpoint", what, port), true}
	case !s.Withheld(local, port, root, gateway):
		return withholding{}
	case local == NotLocal:
		return withholding{fmt.Sprintf("is at port %d, which proxies and their agents have for themselves: no gateway gets this endpoint", port), false}
	case !s.Withheld(local, port, root, foreign):
		return withholding{what + ": no gateway gets this endpoint; want an address of the network", false}
	case local == Loopback || local == LocalHost:
		return withholding{what + others + ", or, where the whole mesh is on one machine, an address such as 127.0.0.11 and the flag " +
			"--loopbackEndpoints of serve", false}
	default:
		return withholding{what + others, false}
	}
}

// withholdingOf returns the same for the ports of a service: the first port with a reason counts.
func (s Settings) withholdingOf(e Endpoint, ports []Port, namespace string) withholding {
	if len(ports) == 0 {
		return s.withholding(e.Address, 0, namespace)
	}
	for _, p := range ports {
		if w := s.withholding(e.Address, e.PortOn(p), namespace); w.text != "" {
			return w
		}
	}
	return withholding{}
}

func (j *judge) localEntry(meta Meta, entry *networking.ServiceEntry) {
	settings, ports := j.mesh.settings, portsOf(entry)
	exportTo := orDefault(entry.ExportTo, settings.Config.GetDefaultServiceExportTo())
	private := len(exportTo) == 1 && (exportTo[0] == "." || exportTo[0] == meta.Namespace)
	found := 0
	name := func(path string, e Endpoint) {
		w := settings.withholdingOf(e, ports, meta.Namespace)
		if w.text == "" || private && !w.nobody {
			return
		}
		if found++; found <= maxLocal {
			j.note(LocalEndpoint, meta, path, "%s", w.text)
		}
	}
	endpoints := endpointsOf(entry)
	for i, e := range endpoints {
		name(index("spec.endpoints", i)+".address", e)
	}
	if resolutionOf(entry.Resolution).IsDNS() && len(endpoints) == 0 && entry.WorkloadSelector == nil {
		for i, host := range entry.Hosts {
			name(index("spec.hosts", i), Endpoint{Address: host})
		}
	}
	if found > maxLocal {
		j.note(LocalEndpoint, meta, "spec.endpoints", "and %d further endpoints likewise", found-maxLocal)
	}
}

func (j *judge) localWorkload(meta Meta, entry *networking.WorkloadEntry) {
	var ports []Port
	for _, number := range entry.Ports {
		ports = append(ports, Port{Number: number})
	}
	sort.Slice(ports, func(i, j int) bool { return ports[i].Number < ports[j].Number })
	if w := j.mesh.settings.withholdingOf(Endpoint{Address: entry.Address}, ports, meta.Namespace); w.text != "" {
		j.note(LocalEndpoint, meta, "spec.address", "%s", w.text)
	}
}

// locals adds notes about the endpoints of registered services at local addresses, and about endpoints of services of
// other namespaces at the own address of a connected gateway.
func (j *judge) locals() {
	for _, s := range j.mesh.services {
		if s.Registry == "" || !j.mesh.local[s] {
			continue
		}
		first, found := "", 0
		for _, e := range s.Endpoints {
			if LocalAddress(e.Address) == NotLocal {
				continue
			}
			if w := j.mesh.settings.withholdingOf(e, s.Ports, s.Namespace); w.text != "" {
				if found++; first == "" {
					first = w.text
				}
			}
		}
		switch {
		case found == 1:
			j.note(LocalEndpoint, j.declaredBy(s), "endpoints", "of %s: one %s", s.Host, first)
		case found > 1:
			j.note(LocalEndpoint, j.declaredBy(s), "endpoints", "of %s: one of %d %s", s.Host, found, first)
		}
	}
	type claim struct {
		service *Service
		address string
	}
	seen := map[claim]bool{}
	for _, w := range j.connected {
		if !w.Gateway {
			continue
		}
		for _, ip := range w.Addresses {
			for _, s := range j.mesh.ServicesAt(ip) {
				if c := (claim{s, ip.String()}); s.Namespace != w.Namespace && !seen[c] {
					seen[c] = true
					j.note(LocalEndpoint, j.declaredBy(s), fieldOf(s, "endpoints"), "of %s: %s is the own address of a gateway of namespace %s, which "+
						"does not get this endpoint: requests would circulate", s.Host, ip, w.Namespace)
				}
			}
		}
	}
}
