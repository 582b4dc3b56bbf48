package xds

import (
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
