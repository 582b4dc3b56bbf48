package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
