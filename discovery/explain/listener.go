package explain

import (
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
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
func (r Request) hello() hello {
	if !r.TLS {
		return hello{}
	}
	host, _ := splitPort(r.Host)
	return hello{encrypted: true, server: strings.ToLower(host), protocols: []string{"http/1.1"}}
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
