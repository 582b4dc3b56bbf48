package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Detection of HTTP on ports without a declared protocol.

// undeclaredHTTP returns the chain for HTTP to ports that no other chain matches.
func undeclaredHTTP(seen observed) *listenerv3.FilterChain {
	manager := seen.newHCM(inboundPassthroughCluster, corev3.TrafficDirection_INBOUND)
	manager.RouteSpecifier = inlined(inboundPassthroughCluster, toCluster("default", inboundPassthroughCluster))
	c := httpChain(networkFilter(hcmFilter, manager))
	c.Name = "virtualInbound-catchall-http"
	return c
}

// sniff makes a listener detect HTTP in the first bytes of connections, except those to ports in known, whose protocol
// is known: a client there may wait for the server to send first. The detection has a time limit.
func sniff(l *listenerv3.Listener, mesh model.Settings, known ...uint32) {
	inspector := httpInspector()
	inspector.FilterDisabled = anyPortOf(known)
	l.ListenerFilters = append(l.ListenerFilters, inspector)
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
