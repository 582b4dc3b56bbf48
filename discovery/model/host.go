package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// clusterDomain is the suffix of the full name of a service that is written as a short name.
const clusterDomain = "svc.cluster.local"

// Qualify resolves a host as written in an object of namespace: a name without a dot is a service of that namespace, as
// in Istio ("reviews" → "reviews.default.svc.cluster.local"). Any other host is returned in lower case.
func Qualify(host, namespace string) string {
	host = strings.ToLower(host)
	if host == "" || host == "*" || strings.ContainsAny(host, ".:") {
		return host
	}
	return host + "." + namespace + "." + clusterDomain
}

// ServerName returns the name (SNI) of a port and subset of a host that a client can send in a TLS handshake.
func ServerName(port uint32, subset, host string) string {
	return fmt.Sprintf("outbound_.%d_.%s_.%s", port, subset, host)
}

// IsWildcard reports whether a host is a wildcard.
func IsWildcard(host string) bool { return strings.HasPrefix(host, "*") }

// HostMatches reports whether pattern matches host, which may be a wildcard itself.
func HostMatches(pattern, host string) bool {
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	return pattern == host || wildcard && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
}

// byHost holds values by host; some hosts are wildcards.
type byHost[T any] struct {
	values    map[string]T
	wildcards []string // narrowest first
}

func (b *byHost[T]) set(host string, value T) {
	if b.values == nil {
		b.values = map[string]T{}
	}
	if _, known := b.values[host]; !known && IsWildcard(host) {
		at, _ := slices.BinarySearchFunc(b.wildcards, host, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
		})
		b.wildcards = slices.Insert(b.wildcards, at, host)
	}
	b.values[host] = value
}

// matching yields the value of host and then those of the wildcards that match it, narrowest first.
func (b *byHost[T]) matching(host string) func(yield func(string, T) bool) {
	return func(yield func(string, T) bool) {
		if v, ok := b.values[host]; ok && !yield(host, v) {
			return
		}
		for _, wildcard := range b.wildcards {
			if wildcard != host && HostMatches(wildcard, host) && !yield(wildcard, b.values[wildcard]) {
				return
			}
		}
	}
}

// qualifyVirtualService returns a copy whose hosts, destinations and gateways are full names.
func qualifyVirtualService(in *networking.VirtualService, namespace string) *networking.VirtualService {
	out := proto.CloneOf(in)
	for i, host := range out.Hosts {
		out.Hosts[i] = Qualify(host, namespace)
	}
	for i, gateway := range out.Gateways {
		out.Gateways[i] = QualifyGateway(gateway, namespace)
	}
	qualify := func(d *networking.Destination) {
		if d != nil {
			d.Host = Qualify(d.Host, namespace)
		}
	}
	gateways := func(names []string) {
		for i, name := range names {
			names[i] = QualifyGateway(name, namespace)
		}
	}
	for _, route := range out.Http {
		for _, r := range route.Route {
			qualify(r.GetDestination())
		}
		qualify(route.Mirror)
		for _, m := range route.Mirrors {
			qualify(m.GetDestination())
		}
		for _, match := range route.Match {
			gateways(match.GetGateways())
		}
	}
	for _, route := range out.Tls {
		for _, r := range route.Route {
			qualify(r.GetDestination())
		}
		for _, match := range route.Match {
			gateways(match.GetGateways())
		}
	}
	for _, route := range out.Tcp {
		for _, r := range route.Route {
			qualify(r.GetDestination())
		}
		for _, match := range route.Match {
			gateways(match.GetGateways())
		}
	}
	return out
}

// MeshGateway is the name of all sidecars in a list of gateways.
const MeshGateway = "mesh"

// QualifyGateway resolves a gateway's name as written in an object of namespace: "ingress" → "default/ingress". The old
// form "ingress.istio-system.svc.cluster.local" is accepted as well.
func QualifyGateway(name, namespace string) string {
	if name == MeshGateway || strings.Contains(name, "/") {
		return name
	}
	if short, found := strings.CutSuffix(name, "."+clusterDomain); found {
		name = short
	}
	if name, other, found := strings.Cut(name, "."); found {
		return other + "/" + name
	}
	return namespace + "/" + name
}
