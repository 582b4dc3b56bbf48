package xds

import (
	"slices"
	"sort"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Name is a host of the mesh with the addresses that DNS answers for it.
type Name struct {
	Host      string   // "*.example.com" matches every name below
	Addresses []string // IPv4 and IPv6
	Service   string   // of a host SERVICE.NAMESPACE.svc.SUFFIX in the proxy's own domain, or POD.SERVICE; else ""
	Namespace string

	pod string // the first label of a name of a Pod; "" for the name of a service
}

// Names returns the names that DNS answers for a proxy of view v, by host; r must be built for v. They are the hosts of
// the services that the proxy may call, with the addresses of the service, or of a headless one those of its endpoints
// that are ready, and a name for each Pod with a hostname, as in Kubernetes' DNS. A service without addresses has no name here: only the DNS server of the network can resolve it.
func (r *Resources) Names(v Outbound) []Name {
	if r.scope == nil {
		return nil // gRPC clients find a service by its listener
	}
	return names(r.scope, v)
}

func names(scope *model.Scope, v Outbound) []Name {
	byHost := map[string]*Name{}
	add := func(name, pod string, addresses []string) {
		host := strings.TrimPrefix(pod+"."+name, ".")
		n := byHost[host]
		if n == nil {
			n = &Name{Host: host, pod: pod}
			if n.Service, n.Namespace = serviceOf(name, v.Domain); pod != "" && n.Service != "" {
				n.Service = pod + "." + n.Service
			}
			byHost[host] = n
		}
		n.add(addresses)
	}
	for _, egress := range scope.Egress() {
		for _, s := range egress.Services {
			answers := v.answers(scope, s)
			add(s.Host, "", answers)
			for _, name := range aliasesIn(scope, s) {
				add(name, "", answers)
			}
			for _, e := range s.Endpoints {
				if e.Hostname != "" && e.Health.TakesRequests() && isIP(e.Address) {
					add(s.Host, e.Hostname, []string{e.Address})
				}
			}
		}
	}
	var out []Name
	for _, n := range byHost {
		if len(n.Addresses) > 0 {
			out = append(out, *n)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Host < out[j].Host })
	return out
}

// answers returns the addresses for the name of a service. Address ranges are left out.
func (v Outbound) answers(scope *model.Scope, s *model.Service) []string {
	all := v.addressesOf(scope, s)
	if s.Headless {
		all = nil
		for _, e := range s.Endpoints {
			sent := func(p model.Port) bool {
				return !v.withheld(s, e, p, s.Namespace == v.Namespace, scope.Settings())
			}
			if e.Health.TakesRequests() && (len(s.Ports) == 0 || slices.ContainsFunc(s.Ports, sent)) {
				all = append(all, e.Address)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(a string) bool { return !isIP(a) })
}

// addressesOf returns a service's own addresses in the proxy's cluster. For a service without any, it returns its
// automatic addresses if the proxy's DNS answers with them.
func (v Outbound) addressesOf(scope *model.Scope, s *model.Service) []string {
	if own := s.AddressesIn(v.Cluster); len(own) > 0 || !v.AutoAddresses || v.none() {
		return own
	}
	four, six, ok := scope.AutoAddresses(s)
	switch {
	case !ok:
		return nil
	case v.Family == IPv4:
		return []string{four.String()}
	case v.Family == IPv6:
		return []string{six.String()}
	default:
		return []string{four.String(), six.String()}
	}
}

// short returns the shorter forms of the name that programs may use in a DNS domain.
func (n Name) short(domain string) []string {
	if n.pod == "" {
		return shortNames(n.Host, domain)
	}
	out := shortNames(strings.TrimPrefix(n.Host, n.pod+"."), domain)
	for i, name := range out {
		out[i] = n.pod + "." + name
	}
	return out
}

func (n *Name) add(addresses []string) {
	for _, a := range addresses {
		if a = canonical(a); !slices.Contains(n.Addresses, a) {
			n.Addresses = append(n.Addresses, a)
		}
	}
}

// serviceOf splits SERVICE.NAMESPACE.svc.SUFFIX, if domain is ANY.svc.SUFFIX.
func serviceOf(host, domain string) (service, namespace string) {
	_, suffix, ok := strings.Cut(domain, ".svc.")
	prefix, found := strings.CutSuffix(host, ".svc."+suffix)
	service, namespace, qualified := strings.Cut(prefix, ".")
	if !ok || !found || !qualified || strings.Contains(namespace, ".") || model.IsWildcard(host) {
		return "", ""
	}
	return service, namespace
}
