package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// blackHole is the cluster without endpoints.
const blackHole = "BlackHoleCluster"

// inboundFor returns the listener of a workload's proxy for an address of it: one that binds it, else that of intercepted connections.
func inboundFor(all []*listenerv3.Listener, to netip.AddrPort) *listenerv3.Listener {
	if l := at(all, to, func(l *listenerv3.Listener) bool { return inbound(l) && !intercepts(l) }); l != nil {
		return l
	}
	if i := slices.IndexFunc(all, func(l *listenerv3.Listener) bool { return inbound(l) && intercepts(l) }); i >= 0 {
		return all[i]
	}
	return nil
}

func intercepts(l *listenerv3.Listener) bool {
	return slices.ContainsFunc(l.ListenerFilters, func(f *listenerv3.ListenerFilter) bool { return strings.HasSuffix(f.Name, "original_dst") })
}

// inboundConnection returns what the filters of a server's listener find out about a connection.
func inboundConnection(l *listenerv3.Listener, to netip.AddrPort, h hello, bytes bool) connection {
	c := connection{to: to, transport: "raw_buffer"}
	switch {
	case h.encrypted && detects(l, "tls_inspector", to.Port()):
		c.transport, c.server, c.protocols = "tls", h.server, h.protocols
	case !h.encrypted && !bytes && detects(l, "http_inspector", to.Port()):
		c.protocols = []string{"http/1.1"}
	}
	return c
}

// detects reports whether a listener has a filter that is in use at a port.
func detects(l *listenerv3.Listener, name string, port uint16) bool {
	return slices.ContainsFunc(l.ListenerFilters, func(f *listenerv3.ListenerFilter) bool {
		return strings.HasSuffix(f.Name, name) && !fulfils(f.FilterDisabled, port)
	})
}

func fulfils(p *listenerv3.ListenerFilterChainMatchPredicate, port uint16) bool {
	switch r := p.GetRule().(type) {
	case *listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange:
		return int32(port) >= r.DestinationPortRange.Start && int32(port) < r.DestinationPortRange.End
	case *listenerv3.ListenerFilterChainMatchPredicate_OrMatch:
		return slices.ContainsFunc(r.OrMatch.Rules, func(p *listenerv3.ListenerFilterChainMatchPredicate) bool { return fulfils(p, port) })
	case *listenerv3.ListenerFilterChainMatchPredicate_AnyMatch:
		return r.AnyMatch
	}
	return false
}

// taken says what a server's port takes.
func taken(l *listenerv3.Listener, to netip.AddrPort) string {
	var out []string
	for _, h := range []hello{{}, {encrypted: true}, {encrypted: true, mutual: true, protocols: []string{"istio"}}} {
		chain := chainFor(l, inboundConnection(l, to, h, false))
		if _, fault := meets(h, chain, ""); fault == "" && (!h.encrypted || chain.TransportSocket != nil) {
			out = append(out, h.kind())
		}
	}
	if len(out) == 0 {
		return "nothing, for its proxy has no certificate"
	}
	return strings.Join(out, " and ") + map[bool]string{true: " only"}[len(out) == 1]
}

const mismatched = "the sides do not speak the same"

// meets says whether the two sides of a connection understand each other: Envoy's flag at the client, and the fault. principal is that of the server.
func meets(h hello, chain *listenerv3.FilterChain, principal string) (flag, fault string) {
	if chain == nil || leadsNowhere(chain) {
		if h.encrypted { // the handshake fails, so that the client has not connected
			return "UF", mismatched
		}
		return "UC", mismatched
	}
	t, _ := unpack(chain.TransportSocket.GetTypedConfig()).(*tlsv3.DownstreamTlsContext)
	http := slices.ContainsFunc(chain.Filters, func(f *listenerv3.Filter) bool { return f.GetTypedConfig().MessageIs(&hcmv3.HttpConnectionManager{}) })
	switch {
	case t == nil && h.encrypted && http:
		return "UF", mismatched
	case t != nil && (!h.encrypted || t.GetRequireClientCertificate().GetValue() && !h.mutual):
		return "UC", mismatched
	case t != nil && h.peers() && principal != "" && len(h.names) > 0:
		for _, m := range h.names {
			if matches(m, principal) {
				return "", ""
			}
		}
		return "UF", fmt.Sprintf("the server is %s, but the client wants %s", principal, wanted(h.names[0]))
	}
	return "", ""
}

// leadsNowhere reports whether a chain closes every connection.
func leadsNowhere(chain *listenerv3.FilterChain) bool {
	return slices.ContainsFunc(chain.Filters, func(f *listenerv3.Filter) bool {
		p, ok := unpack(f.GetTypedConfig()).(*tcpproxyv3.TcpProxy)
		return ok && p.GetCluster() == blackHole
	})
}
