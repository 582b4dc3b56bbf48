package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// listenerFor returns the listener of a connection, and the one that accepted it before, if another did: one that passes
// connections on to the listener of their original destination. Both are nil if the proxy does not get the connection.
func listenerFor(all []*listenerv3.Listener, to netip.AddrPort) (found, accepted *listenerv3.Listener) {
	binds := func(l *listenerv3.Listener) bool { return !inbound(l) && (l.BindToPort == nil || l.BindToPort.Value) }
	if l := at(all, to, binds); l != nil {
		return l, nil
	}
	i := slices.IndexFunc(all, func(l *listenerv3.Listener) bool {
		return l.GetUseOriginalDst().GetValue() && l.TrafficDirection == corev3.TrafficDirection_OUTBOUND
	})
	if i < 0 {
		return nil, nil
	}
	if l := at(all, to, func(l *listenerv3.Listener) bool { return l != all[i] && !inbound(l) }); l != nil {
		return l, all[i]
	}
	return all[i], nil
}

func inbound(l *listenerv3.Listener) bool {
	return l.TrafficDirection == corev3.TrafficDirection_INBOUND
}

// at returns the listener of an address: that of the address itself, else that of all addresses of the port.
func at(all []*listenerv3.Listener, to netip.AddrPort, counts func(*listenerv3.Listener) bool) *listenerv3.Listener {
	var wide *listenerv3.Listener
	for _, l := range all {
		if !counts(l) {
			continue
		}
		for _, own := range addressesOf(l) {
			switch {
			case own.Port() != to.Port():
			case own.Addr().Unmap() == to.Addr().Unmap():
				return l
			case own.Addr().IsUnspecified() && (own.Addr().Is4() == to.Addr().Unmap().Is4()):
				wide = l
			}
		}
	}
	return wide
}

func addressesOf(l *listenerv3.Listener) (out []netip.AddrPort) {
	all := []*corev3.Address{l.GetAddress()}
	for _, a := range l.AdditionalAddresses {
		all = append(all, a.GetAddress())
	}
	for _, a := range all {
		if ip, err := netip.ParseAddr(a.GetSocketAddress().GetAddress()); err == nil {
			out = append(out, netip.AddrPortFrom(ip, uint16(a.GetSocketAddress().GetPortValue())))
		}
	}
	return out
}

// connection is what listener filters know of a connection.
type connection struct {
	to        netip.AddrPort
	transport string // "raw_buffer" or "tls"
	server    string // SNI
	protocols []string
}

// connectionOf returns what the filters of a listener find out about the connection of a program.
func connectionOf(l *listenerv3.Listener, r Request) connection {
	return inboundConnection(l, r.To, r.hello(), r.TCP)
}

// hello is how the program begins its connection.
func (r Request) hello() clientHello {
	if !r.TLS {
		return clientHello{}
	}
	host, _ := splitPort(r.Host)
	return clientHello{encrypted: true, server: strings.ToLower(host), protocols: []string{"http/1.1"}}
}

// chainFor returns the filter chain of a connection: condition by condition, in Envoy's order, the most specific ones are kept. If
// none is left, it is the default one, which may be nil.
func chainFor(l *listenerv3.Listener, c connection) *listenerv3.FilterChain {
	left := l.FilterChains
	for _, rank := range []func(*listenerv3.FilterChainMatch) int{c.byPort, c.byAddress, c.byServer, c.byTransport, c.byProtocol, c.bySource} {
		best, kept := 0, []*listenerv3.FilterChain(nil)
		for _, chain := range left {
			n := rank(chain.GetFilterChainMatch())
			if n > best {
				best, kept = n, nil
			}
			if n == best && n > 0 {
				kept = append(kept, chain)
			}
		}
		left = kept
	}
	if len(left) == 0 {
		return l.DefaultFilterChain
	}
	return left[0]
}

// Each of these returns how specifically a match is for the connection: 1 without a condition, 0 if the condition does not hold.

func (c connection) byPort(m *listenerv3.FilterChainMatch) int {
	return rankIf(m.GetDestinationPort() != nil, m.GetDestinationPort().GetValue() == uint32(c.to.Port()))
}

func (c connection) byAddress(m *listenerv3.FilterChainMatch) int {
	if len(m.GetPrefixRanges()) == 0 {
		return 1
	}
	best := 0
	for _, r := range m.PrefixRanges {
		ip, err := netip.ParseAddr(r.AddressPrefix)
		if err != nil {
			continue
		}
		bits := int(r.PrefixLen.GetValue())
		if p, err := ip.Prefix(bits); err == nil && p.Contains(c.to.Addr().Unmap()) {
			best = max(best, bits+2)
		}
	}
	return best
}

func (c connection) byServer(m *listenerv3.FilterChainMatch) int {
	if len(m.GetServerNames()) == 0 {
		return 1
	}
	best := 0
	for _, name := range m.ServerNames {
		if c.server != "" {
			best = max(best, rankOf(name, c.server))
		}
	}
	if best > 0 {
		return best + 1
	}
	return 0
}

func (c connection) byTransport(m *listenerv3.FilterChainMatch) int {
	return rankIf(m.GetTransportProtocol() != "", m.GetTransportProtocol() == c.transport)
}

// byProtocol prefers the chain of the protocol that the client names first.
func (c connection) byProtocol(m *listenerv3.FilterChainMatch) int {
	if len(m.GetApplicationProtocols()) == 0 {
		return 1
	}
	for i, p := range c.protocols {
		if slices.Contains(m.ApplicationProtocols, p) {
			return 1 + len(c.protocols) - i
		}
	}
	return 0
}

// bySource leaves out chains with a condition on the client's address, which is not known.
func (c connection) bySource(m *listenerv3.FilterChainMatch) int {
	return rankIf(len(m.GetSourcePrefixRanges())+len(m.GetDirectSourcePrefixRanges())+len(m.GetSourcePorts()) > 0, false)
}

func rankIf(condition, holds bool) int {
	switch {
	case !condition:
		return 1
	case holds:
		return 2
	}
	return 0
}

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
func inboundConnection(l *listenerv3.Listener, to netip.AddrPort, h clientHello, bytes bool) connection {
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
	for _, h := range []clientHello{{}, {encrypted: true}, {encrypted: true, mutual: true, protocols: []string{"istio"}}} {
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
func meets(h clientHello, chain *listenerv3.FilterChain, principal string) (flag, fault string) {
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

// clientHello is how a connection to an endpoint begins.
type clientHello struct {
	encrypted bool
	mutual    bool // with a certificate
	server    string
	protocols []string                   // ALPN
	marked    []string                   // the same for a request; nil if it is no other
	names     []*matcherv3.StringMatcher // one of which the server's certificate must have; nil for any
	other     string                     // the name of a transport socket that is not judged
}

// helloTo says how a connection to an endpoint begins.
func helloTo(c *clusterv3.Cluster, e *endpointv3.LbEndpoint) clientHello {
	socket := c.TransportSocket
	own := e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"].GetFields()
	for _, m := range c.TransportSocketMatches {
		holds := true
		for key, want := range m.GetMatch().GetFields() {
			holds = holds && proto.Equal(own[key], want)
		}
		if holds {
			socket = m.TransportSocket
			break
		}
	}
	h := helloOf(socket)
	h.marked = xds.MarkedALPN(c)
	return h
}

func helloOf(socket *corev3.TransportSocket) clientHello {
	t, ok := unpack(socket.GetTypedConfig()).(*tlsv3.UpstreamTlsContext)
	switch {
	case socket == nil, !ok && strings.Contains(socket.Name, "raw_buffer"):
		return clientHello{}
	case !ok:
		return clientHello{other: socket.Name}
	}
	common := t.GetCommonTlsContext()
	out := clientHello{
		encrypted: true, mutual: len(common.GetTlsCertificateSdsSecretConfigs())+len(common.GetTlsCertificates()) > 0,
		server: t.Sni, protocols: common.GetAlpnProtocols(),
	}
	validation := common.GetValidationContext()
	if combined := common.GetCombinedValidationContext(); combined != nil {
		validation = combined.DefaultValidationContext
	}
	for _, m := range validation.GetMatchTypedSubjectAltNames() {
		out.names = append(out.names, m.Matcher)
	}
	return out
}

// peers reports whether the connection is one between sidecars, with certificates of the mesh.
func (h clientHello) peers() bool {
	return h.mutual && slices.ContainsFunc(h.protocols, func(p string) bool { return strings.HasPrefix(p, "istio") })
}

// kind is what is spoken, for a sentence.
func (h clientHello) kind() string {
	switch {
	case h.other != "":
		return h.other
	case !h.encrypted:
		return "plain text"
	case h.mutual:
		return "mutual TLS"
	}
	return "TLS"
}

func (h clientHello) text() string {
	out := h.kind()
	if h.server != "" {
		out += " to " + h.server
	}
	if h.peers() {
		out += ", as Istio's sidecars speak it"
	}
	return out
}
