package xds

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// The names of the filter chains for ports that nobody declares.
const (
	undeclaredHTTPChain = "virtualInbound-catchall-http"
	undeclaredTCPChain  = "virtualInbound-catchall-tcp"
)

// virtualInbound returns the listener of all intercepted connections, with filter chains for each destination port. Ports that
// no service declares are forwarded to the workload as well, HTTP as HTTP.
func (in InboundInputs) virtualInbound(seen observed, ports []inboundPort) *listenerv3.Listener {
	v := in.view
	anywhere := v.family().wildcard()
	port := in.mesh.InboundPort()
	l := &listenerv3.Listener{
		Name: model.VirtualInbound, Address: socket(anywhere, port), AdditionalAddresses: v.family().further(port),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters:  []*listenerv3.ListenerFilter{originalDestination()},
		// A connection to the listener's own address would be forwarded to the listener again.
		FilterChains: []*listenerv3.FilterChain{{
			Name:             "virtualInbound-blackhole",
			FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)},
			Filters:          []*listenerv3.Filter{seen.tcpTo(blackHoleCluster)},
		}},
	}
	if v.Mode == node.TProxy {
		l.Transparent = wrapperspb.Bool(true)
		l.ListenerFilters = append(l.ListenerFilters, originalSource())
	}
	unguarded := in.undeclared(seen, l, ports)
	known := []uint32{port}
	for _, p := range ports {
		if p.port() == port {
			continue
		}
		if p.protocol != model.Unknown || p.guard == guardClosed {
			known = append(known, p.port())
		}
		if !p.guard.inspects() {
			unguarded = append(unguarded, p.port())
		}
		addChains(l, p.name(), p.port(), p.chains(seen, "inbound_"+listenerName(anywhere, p.port()), in.mesh))
	}
	if in.inspects(ports) {
		inspector := tlsInspector()
		inspector.FilterDisabled = anyPortOf(append([]uint32{port}, unguarded...))
		l.ListenerFilters = append(l.ListenerFilters, inspector)
	}
	sniff(l, in.mesh, known...)
	return l
}

// addChains adds chains for a destination port, for all of them if it is 0.
func addChains(l *listenerv3.Listener, name string, port uint32, chains []*listenerv3.FilterChain) {
	for _, c := range chains {
		c.Name = name
		if c.FilterChainMatch == nil {
			c.FilterChainMatch = &listenerv3.FilterChainMatch{}
		}
		if port != 0 {
			c.FilterChainMatch.DestinationPort = wrapperspb.UInt32(port)
		}
		l.FilterChains = append(l.FilterChains, c)
	}
}

// guarded reports whether a policy, or mutual TLS, concerns a port of the workload. The listener has no default chain then:
// Envoy takes the default for whatever no chain of a port matches.
func (in InboundInputs) guarded(ports []inboundPort) bool {
	return in.view.guardOf(in.peer.Mode(0), nil) != guardNone ||
		slices.ContainsFunc(in.peer.Ports(), func(n uint32) bool { return in.view.guardOf(in.peer.Mode(n), nil) != guardNone }) ||
		slices.ContainsFunc(ports, func(p inboundPort) bool { return p.guard != guardNone })
}

// inspects reports whether TLS must be detected at a port.
func (in InboundInputs) inspects(ports []inboundPort) bool {
	return in.view.guardOf(in.peer.Mode(0), nil).inspects() ||
		slices.ContainsFunc(in.peer.Ports(), func(n uint32) bool { return in.view.guardOf(in.peer.Mode(n), nil).inspects() }) ||
		slices.ContainsFunc(ports, func(p inboundPort) bool { return p.guard.inspects() })
}

// undeclared adds the chains for ports that nobody declares: for those with a level of their own in the policy, and for all
// others. It returns the former of which no TLS is detected.
func (in InboundInputs) undeclared(seen observed, l *listenerv3.Listener, ports []inboundPort) (unguarded []uint32) {
	to := entrance{
		protocol: model.Unknown, detected: seen.detected(), tcp: seen.tcpTo(inboundPassthroughCluster),
		http: func(mutual bool) *listenerv3.Filter { return undeclaredHTTP(seen, mutual) },
	}
	if !in.guarded(ports) {
		c := seen.httpChain(to.http(false))
		c.Name = undeclaredHTTPChain
		l.FilterChains = append(l.FilterChains, c)
		l.DefaultFilterChain = &listenerv3.FilterChain{Name: undeclaredTCPChain, Filters: []*listenerv3.Filter{to.tcp}}
		return nil
	}
	if in.inspects(ports) {
		to.socket = in.view.peerSocket(in.mesh)
	}
	for _, n := range append([]uint32{0}, in.peer.Ports()...) {
		if n == in.mesh.InboundPort() || slices.ContainsFunc(ports, func(p inboundPort) bool { return p.port() == n }) {
			continue
		}
		switch g := in.view.guardOf(in.peer.Mode(n), nil); {
		case g == guardClosed:
			addChains(l, undeclaredTCPChain, n, []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{seen.tcpTo(blackHoleCluster)}}})
		default:
			for _, c := range to.chains(g) {
				name := undeclaredTCPChain
				if c.Filters[0].Name == hcmFilter {
					name = undeclaredHTTPChain
				}
				addChains(l, name, n, []*listenerv3.FilterChain{c})
			}
			if n != 0 && !g.inspects() {
				unguarded = append(unguarded, n)
			}
		}
	}
	return unguarded
}

// undeclaredHTTP returns the filter for HTTP to ports that nobody declares.
func undeclaredHTTP(seen observed, mutual bool) *listenerv3.Filter {
	manager := seen.newHCM(inboundPassthroughCluster, corev3.TrafficDirection_INBOUND)
	if mutual {
		namesClient(manager)
	}
	manager.RouteSpecifier = inlined(inboundPassthroughCluster, toCluster("default", inboundPassthroughCluster))
	return networkFilter(hcmFilter, manager)
}

// namesClient makes a connection manager tell the workload who the client is, in x-forwarded-client-cert.
func namesClient(m *hcmv3.HttpConnectionManager) {
	m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
		Subject: wrapperspb.Bool(true), Uri: true, Dns: true,
	}
}
