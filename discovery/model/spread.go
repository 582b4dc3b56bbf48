package model

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// spread finds out how often proxies have the routes of a VirtualService. ServiceEntries of other namespaces do not count, or their owners could
// have its routes withheld from everybody.
type spread struct {
	mesh     *Mesh
	services *hostWeights            // ports of services of registries and of the root namespace, by host; nil until it is needed
	entries  map[string]*hostWeights // ports of the ServiceEntries of a namespace, likewise
	gateways map[string]*hostWeights // servers, by Gateway and host
}

// listed returns how often a proxy has the routes of a rule, or any number of more than most.
func (s *spread) listed(rule *Config[*networking.VirtualService], most int) int {
	sidecars, gateways, v := 0, 0, rule.Spec
	if Names(v.Gateways, MeshGateway) {
		for _, host := range v.Hosts {
			sidecars += max(1, s.ports(host, rule.Namespace))
			if sidecars > most {
				return sidecars
			}
		}
	}
	for _, name := range v.Gateways {
		servers := s.gateways[name]
		for _, host := range v.Hosts {
			if servers == nil {
				break
			}
			gateways += max(1, servers.around(host))
			if gateways > most {
				return gateways
			}
		}
	}
	return max(sidecars, gateways, len(v.Hosts))
}

// ports returns the number of the ports of the services that a host of a namespace's rule matches, and that count.
func (s *spread) ports(host, namespace string) int {
	if !IsWildcard(host) {
		if of := s.mesh.Service(host); of != nil && (s.common(of) || of.Namespace == namespace) {
			return len(of.Ports)
		}
		return 0
	}
	if s.services == nil {
		s.services = s.portsOf(s.common)
	}
	if s.entries[namespace] == nil {
		s.entries[namespace] = s.portsOf(func(of *Service) bool { return of.Namespace == namespace && !s.common(of) })
	}
	return s.services.within(host) + s.entries[namespace].within(host)
}

// common reports whether a service counts for the rules of every namespace.
func (s *spread) common(of *Service) bool {
	return of.Registry != "" || of.Namespace == s.mesh.settings.RootNamespace()
}

// portsOf returns how many ports the services that count have at each host.
func (s *spread) portsOf(counts func(*Service) bool) *hostWeights {
	all := map[string]int{}
	for _, of := range s.mesh.services {
		if counts(of) {
			all[of.Host] = max(all[of.Host], len(of.Ports))
		}
	}
	return newHostWeights(all)
}

// serversOf returns how many servers of a Gateway have each host.
func serversOf(g *networking.Gateway) *hostWeights {
	all := map[string]int{}
	for _, server := range g.Servers {
		for _, host := range ServerHosts(server) {
			all[host]++
		}
	}
	return newHostWeights(all)
}

// hostWeights has a number for each of some hosts, which may be wildcards.
type hostWeights struct {
	of       map[string]int
	reversed []string // sorted
	sums     []int    // of those before
}

func newHostWeights(of map[string]int) *hostWeights {
	w := &hostWeights{of: of, sums: make([]int, len(of)+1)}
	names := map[string]string{}
	for host := range of {
		back := []byte(host)
		slices.Reverse(back)
		w.reversed, names[string(back)] = append(w.reversed, string(back)), host
	}
	slices.Sort(w.reversed)
	for i, back := range w.reversed {
		w.sums[i+1] = w.sums[i] + of[names[back]]
	}
	return w
}

// within returns the numbers of the hosts that a host matches, itself too.
func (w *hostWeights) within(host string) int {
	if !IsWildcard(host) {
		return w.of[host]
	}
	back := []byte(host[1:])
	slices.Reverse(back)
	from, _ := slices.BinarySearch(w.reversed, string(back))
	to, _ := slices.BinarySearch(w.reversed, string(back)+"\xff")
	return w.sums[to] - w.sums[from]
}

// around returns the same, and those of the wildcards that match the host.
func (w *hostWeights) around(host string) int {
	n := w.within(host)
	for rest := strings.TrimPrefix(host, "*."); ; {
		_, after, found := strings.Cut(rest, ".")
		if !found {
			break
		}
		n, rest = n+w.of["*."+after], after
	}
	if host != "*" {
		n += w.of["*"]
	}
	return n
}
