package xds

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// uniqueChains removes from each chain the matches of earlier chains: Envoy rejects a listener in which two chains
// match the same destination, source and server name.
func uniqueChains(chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	taken := claims{}
	var out []*listenerv3.FilterChain
	for _, c := range chains {
		out = append(out, taken.claim(c)...)
	}
	return out
}

// claims holds the matches that chains already use.
type claims map[claimed]bool

// claimed is one of the matches of a chain. Empty fields match everything.
type claimed struct {
	transport, destination, source, name string
	port                                 uint32
}

// claim returns the chain, split into parts if some of its matches are already used. The destinations that are free for all of its sources
// and names stay together in one part: a chain may have thousands.
func (taken claims) claim(c *listenerv3.FilterChain) []*listenerv3.FilterChain {
	m := c.GetFilterChainMatch()
	var parts []*listenerv3.FilterChainMatch
	var free []*corev3.CidrRange
	for _, destination := range orAny(m.GetPrefixRanges()) {
		var here []*listenerv3.FilterChainMatch
		whole := true
		for _, source := range orAny(m.GetSourcePrefixRanges()) {
			names := taken.names(m, destination, source)
			whole = whole && len(names) == len(orAny(m.GetServerNames()))
			if len(names) == 0 {
				continue
			}
			if len(m.GetServerNames()) == 0 {
				names = nil
			}
			here = append(here, &listenerv3.FilterChainMatch{PrefixRanges: only(destination), SourcePrefixRanges: only(source), ServerNames: names})
		}
		if whole {
			free = append(free, destination)
		} else {
			parts = append(parts, here...)
		}
	}
	if len(free) == len(orAny(m.GetPrefixRanges())) {
		return []*listenerv3.FilterChain{c}
	}
	if len(free) > 0 {
		parts = append(parts, &listenerv3.FilterChainMatch{PrefixRanges: free, SourcePrefixRanges: m.GetSourcePrefixRanges(), ServerNames: m.GetServerNames()})
	}
	return split(c, parts)
}

// split returns the chain once for each of the parts, which replace its own destinations, sources and names.
func split(c *listenerv3.FilterChain, parts []*listenerv3.FilterChainMatch) []*listenerv3.FilterChain {
	set := func(c *listenerv3.FilterChain, part *listenerv3.FilterChainMatch) {
		if m := c.FilterChainMatch; m != nil {
			m.PrefixRanges, m.SourcePrefixRanges, m.ServerNames = part.GetPrefixRanges(), part.GetSourcePrefixRanges(), part.GetServerNames()
		}
	}
	bare := proto.CloneOf(c)
	set(bare, nil)
	out := make([]*listenerv3.FilterChain, 0, len(parts))
	for _, part := range parts {
		one := proto.CloneOf(bare)
		set(one, part)
		out = append(out, one)
	}
	return out
}

// names claims the server names that are still free for a destination and a source, and returns them.
func (taken claims) names(m *listenerv3.FilterChainMatch, destination, source *corev3.CidrRange) (free []string) {
	for _, name := range orAny(m.GetServerNames()) {
		key := claimed{m.GetTransportProtocol(), textOf(destination), textOf(source), name, m.GetDestinationPort().GetValue()}
		if !taken[key] {
			taken[key] = true
			free = append(free, name)
		}
	}
	return free
}

// textOf is a range as text, and empty for none.
func textOf(r *corev3.CidrRange) string {
	if r == nil {
		return ""
	}
	return r.GetAddressPrefix() + "/" + strconv.FormatUint(uint64(r.GetPrefixLen().GetValue()), 10)
}

// orAny returns list, or one zero value, which matches everything, if it is empty.
func orAny[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

func only(r *corev3.CidrRange) []*corev3.CidrRange {
	if r == nil {
		return nil
	}
	return []*corev3.CidrRange{r}
}

// Detection of HTTP on ports without a declared protocol.

// sniffed returns the filter chains of a listener, or of one of its ports, at which HTTP is detected: http takes HTTP to
// any address and to each of the ranges, bytes take everything else.
//
// Envoy compares the properties of a connection one after the other: destination port, destination address, server name,
// transport protocol, application protocol, source. Of each it takes the chains with the most specific value, and it
// never goes back. So beside http, whose transport protocol is raw_buffer, it does not consider chains without a
// transport protocol for connections without TLS: each of bytes has a twin for these.
func sniffed(http *listenerv3.FilterChain, ranges []*corev3.CidrRange, bytes ...*listenerv3.FilterChain) []*listenerv3.FilterChain {
	out := []*listenerv3.FilterChain{http}
	if len(ranges) > 0 {
		there := proto.CloneOf(http)
		there.FilterChainMatch.PrefixRanges = ranges
		out = append(out, there)
	}
	for _, c := range bytes {
		if out = append(out, c); c.GetFilterChainMatch().GetTransportProtocol() != "" {
			continue
		}
		twin := proto.CloneOf(c)
		if twin.FilterChainMatch == nil {
			twin.FilterChainMatch = &listenerv3.FilterChainMatch{}
		}
		twin.FilterChainMatch.TransportProtocol = http.FilterChainMatch.TransportProtocol
		out = append(out, twin)
	}
	return out
}

// sniff makes a listener detect HTTP in the first bytes of connections, except those to ports in known, whose protocol
// is known: a client there may wait for the server to send first. The detection has a time limit.
func sniff(l *listenerv3.Listener, mesh model.Settings, known ...uint32) {
	inspector := httpInspector()
	inspector.FilterDisabled = anyPortOf(known)
	l.ListenerFilters = append(l.ListenerFilters, inspector)
	waitsFor(l, mesh)
}

// waitsFor limits how long a listener's filters wait for the first bytes of a client.
func waitsFor(l *listenerv3.Listener, mesh model.Settings) {
	l.ListenerFiltersTimeout = detectionTimeout(mesh)
	l.ContinueOnListenerFiltersTimeout = true
}

// anyPortOf matches connections to one of ports; nil if there are none.
func anyPortOf(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	var rules []*listenerv3.ListenerFilterChainMatchPredicate
	for _, port := range ports {
		rules = append(rules, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(port), End: int32(port) + 1},
			},
		})
	}
	switch len(rules) {
	case 0:
		return nil
	case 1: // Envoy requires at least two rules in a set
		return rules[0]
	default:
		return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
			OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: rules},
		}}
	}
}

// tcpTo returns a filter that forwards TCP to a cluster.
func (o observed) tcpTo(cluster string) *listenerv3.Filter {
	return networkFilter(tcpProxyFilter, &tcpproxyv3.TcpProxy{
		StatPrefix: cluster, ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: cluster}, AccessLog: o.tcpLogs(),
		AccessLogOptions: o.tcpOptions(),
	})
}

// tcpRoute returns a filter that forwards TCP to destinations by weight. Without a destination, it closes the
// connection.
func (r router) tcpRoute(o observed, route []*networking.RouteDestination) *listenerv3.Filter {
	destinations := weighted(route)
	if len(destinations) == 0 {
		return o.tcpTo(blackHoleCluster)
	}
	first := destinations[0].GetDestination()
	out := &tcpproxyv3.TcpProxy{StatPrefix: r.clusterOf(first), AccessLog: o.tcpLogs(), AccessLogOptions: o.tcpOptions()}
	if len(destinations) == 1 {
		out.ClusterSpecifier = &tcpproxyv3.TcpProxy_Cluster{Cluster: r.clusterOf(first)}
	} else {
		split := &tcpproxyv3.TcpProxy_WeightedCluster{}
		for _, d := range destinations {
			split.Clusters = append(split.Clusters, &tcpproxyv3.TcpProxy_WeightedCluster_ClusterWeight{
				Name: r.clusterOf(d.GetDestination()), Weight: uint32(d.Weight),
			})
		}
		out.ClusterSpecifier = &tcpproxyv3.TcpProxy_WeightedClusters{WeightedClusters: split}
		out.StatPrefix = first.GetHost()
	}
	r.connectionPolicy(out, first)
	return networkFilter(tcpProxyFilter, out)
}

// connectionPolicy sets the settings of a DestinationRule for connections of clients.
func (r router) connectionPolicy(out *tcpproxyv3.TcpProxy, d *networking.Destination) {
	p := r.policyOf(d)
	out.IdleTimeout = p.pool.GetTcp().GetIdleTimeout()
	out.MaxDownstreamConnectionDuration = p.pool.GetTcp().GetMaxConnectionDuration()
	if p.balancer.GetConsistentHash().GetUseSourceIp() {
		out.HashPolicy = []*typev3.HashPolicy{{PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: &typev3.HashPolicy_SourceIp{}}}}
	}
}

// tcpChains returns the filter chains for connections to a service's port that is not HTTP: the TCP routes of its
// VirtualService and, unless one of these matches every connection, a chain to the service itself. subnets restrict
// them to the service's own addresses.
func (r router) tcpChains(o observed, s *model.Service, rule *networking.VirtualService,
	subnets []string,
) []*listenerv3.FilterChain {
	var out []*listenerv3.FilterChain
	for _, route := range rule.GetTcp() {
		matches := route.Match
		if len(matches) == 0 {
			matches = []*networking.L4MatchAttributes{nil}
		}
		for _, m := range matches {
			if m != nil && !r.applies(m) {
				continue
			}
			destination := subnets
			if len(m.GetDestinationSubnets()) > 0 {
				destination = m.DestinationSubnets
			}
			match := &listenerv3.FilterChainMatch{PrefixRanges: ranges(destination)}
			if m.GetSourceSubnet() != "" {
				match.SourcePrefixRanges = ranges([]string{m.SourceSubnet})
			}
			out = append(out, &listenerv3.FilterChain{
				FilterChainMatch: match,
				Filters:          []*listenerv3.Filter{r.tcpRoute(o, route.Route)},
			})
			if len(m.GetDestinationSubnets()) == 0 && m.GetSourceSubnet() == "" {
				return out // later routes would never be reached
			}
		}
	}
	return append(out, &listenerv3.FilterChain{
		FilterChainMatch: &listenerv3.FilterChainMatch{PrefixRanges: ranges(subnets)},
		Filters:          []*listenerv3.Filter{r.tcpRoute(o, r.whole(s))},
	})
}

func (r router) whole(s *model.Service) []*networking.RouteDestination {
	return []*networking.RouteDestination{{
		Destination: &networking.Destination{Host: s.Host, Port: &networking.PortSelector{Number: r.port}},
	}}
}

// tlsChains returns the filter chains for TLS connections by their server name (SNI): the TLS routes of a
// VirtualService, and a chain for the service's own host and its other names, but those that the routes name.
func (r router) tlsChains(o observed, s *model.Service, rule *networking.VirtualService, domain string) []*listenerv3.FilterChain {
	out := r.sniChains(o, rule)
	names := []string{s.Host}
	for _, name := range aliasesIn(r.scope, s) {
		names = append(append(names, name), shortNames(name, domain)...)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(out, func(c *listenerv3.FilterChain) bool { return slices.Contains(c.FilterChainMatch.ServerNames, name) })
	})
	if len(names) > 0 {
		out = append(out, sniChain(names, nil, r.tcpRoute(o, r.whole(s))))
	}
	return out
}

func (r router) sniChains(o observed, rule *networking.VirtualService) []*listenerv3.FilterChain {
	var out []*listenerv3.FilterChain
	for _, route := range rule.GetTls() {
		for _, m := range route.Match {
			if r.applies(m) {
				out = append(out, sniChain(m.SniHosts, m.DestinationSubnets, r.tcpRoute(o, route.Route)))
			}
		}
	}
	return out
}

// sniChain returns a filter chain for connections whose SNI is one of servers; "*" matches any SNI, and connections
// without one.
func sniChain(servers, subnets []string, filter *listenerv3.Filter) *listenerv3.FilterChain {
	match := &listenerv3.FilterChainMatch{TransportProtocol: "tls", PrefixRanges: ranges(subnets)}
	for _, s := range servers {
		if label, _, _ := strings.Cut(s, "."); strings.HasPrefix(s, "*") && label != "*" || s == "*" {
			match.ServerNames = nil // Envoy has no wildcards within a label
			break
		}
		match.ServerNames = append(match.ServerNames, strings.ToLower(s))
	}
	return &listenerv3.FilterChain{FilterChainMatch: match, Filters: []*listenerv3.Filter{filter}}
}

// ranges parses addresses and CIDRs, without duplicates; other strings are left out.
func ranges(subnets []string) []*corev3.CidrRange {
	known := make(map[netip.Prefix]bool, len(subnets))
	var out []*corev3.CidrRange
	for _, s := range subnets {
		prefix, ok := prefixOf(s)
		if !ok || known[prefix] {
			continue
		}
		known[prefix] = true
		out = append(out, &corev3.CidrRange{
			AddressPrefix: prefix.Addr().String(),
			PrefixLen:     wrapperspb.UInt32(uint32(prefix.Bits())),
		})
	}
	return out
}

func trimSlash(path string) string { return strings.TrimPrefix(path, "/") }
