package model

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// spread finds out how often proxies have the routes of a VirtualService.
type spread struct {
	mesh     *Mesh
	services *hostWeights            // ports, by host; nil until it is needed
	gateways map[string]*hostWeights // servers, by Gateway and host
}

// listed returns how often a proxy has the routes of a rule, or any number of more than most.
func (s *spread) listed(v *networking.VirtualService, most int) int {
	sidecars, gateways := 0, 0
	if Names(v.Gateways, MeshGateway) {
		for _, host := range v.Hosts {
			sidecars += max(1, s.ports(host))
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

// ports returns the number of the ports of all services that a host matches.
func (s *spread) ports(host string) int {
	if !IsWildcard(host) {
		if of := s.mesh.Service(host); of != nil {
			return len(of.Ports)
		}
		return 0
	}
	if s.services == nil {
		all := map[string]int{}
		for _, of := range s.mesh.services {
			all[of.Host] = max(all[of.Host], len(of.Ports))
		}
		s.services = newHostWeights(all)
	}
	return s.services.within(host)
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
