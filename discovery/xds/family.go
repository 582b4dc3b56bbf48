package xds

import (
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
)

// Family is the IP family of a proxy's addresses, and so of its listeners: a pod's traffic is redirected in both
// families.
type Family int

// The families. A proxy without addresses has IPv4.
const (
	IPv4 Family = iota
	IPv6
	DualStack
)

// familyOf returns the family of addresses. IPv6 addresses that every host has, link-local and loopback, count only if
// there are no others.
func familyOf(addresses []string) Family {
	four, six, local := false, false, false
	for _, address := range addresses {
		ip, err := netip.ParseAddr(address)
		switch {
		case err != nil:
		case ip.Unmap().Is4():
			four = true
		case ip.IsLoopback() || ip.IsLinkLocalUnicast():
			local = true
		default:
			six = true
		}
	}
	switch {
	case four && six:
		return DualStack
	case !four && (six || local):
		return IPv6
	default:
		return IPv4
	}
}

// wildcard returns the wildcard address of the proxy's listeners. With both families it is the first of two, see
// further.
func (f Family) wildcard() string {
	if f == IPv6 {
		return "::"
	}
	return "0.0.0.0"
}

func (f Family) loopback() string {
	if f == IPv6 {
		return "::1"
	}
	return "127.0.0.1"
}

// further returns the additional addresses of a listener at the wildcard address and port.
func (f Family) further(port uint32) []*listenerv3.AdditionalAddress {
	if f != DualStack {
		return nil
	}
	return []*listenerv3.AdditionalAddress{{Address: socket("::", port)}}
}

// loopbacks returns the additional addresses of a listener at the loopback address and port.
func (f Family) loopbacks(port uint32) []*listenerv3.AdditionalAddress {
	if f != DualStack {
		return nil
	}
	return []*listenerv3.AdditionalAddress{{Address: socket("::1", port)}}
}

// lookup returns the family to which names are resolved, for DNS clusters and for the DNS cache.
func (f Family) lookup() (commondnsv3.DnsLookupFamily, clusterv3.Cluster_DnsLookupFamily) {
	if f == IPv6 {
		return commondnsv3.DnsLookupFamily_AUTO, clusterv3.Cluster_AUTO // IPv6 if there is any
	}
	return commondnsv3.DnsLookupFamily_V4_PREFERRED, clusterv3.Cluster_V4_PREFERRED
}

// Source addresses by which the pod's iptables rules recognise connections from the proxy to its workload.
const (
	passthroughSource  = "127.0.0.6"
	passthroughSource6 = "::6"
)

// source returns the source addresses of connections to the workload. Envoy uses the address of the family that it
// connects to.
func (f Family) source() *corev3.BindConfig {
	from := func(address string) *corev3.SocketAddress { return socket(address, 0).GetSocketAddress() }
	switch f {
	case IPv6:
		return &corev3.BindConfig{SourceAddress: from(passthroughSource6)}
	case DualStack:
		return &corev3.BindConfig{
			SourceAddress:        from(passthroughSource),
			ExtraSourceAddresses: []*corev3.ExtraSourceAddress{{Address: from(passthroughSource6)}},
		}
	default:
		return &corev3.BindConfig{SourceAddress: from(passthroughSource)}
	}
}
