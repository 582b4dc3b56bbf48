package xds

import (
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
)

// Family is what addresses a proxy has, so where its listeners must be: a pod's traffic is redirected in both families.
type Family int

// The families. A proxy that names no address has IPv4 ones.
const (
	IPv4 Family = iota
	IPv6
	DualStack
)

// familyOf passes over IPv6 addresses that every host has, and that lead nowhere: of the link, and loopback.
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

// wildcard is the address that stands for every one of a proxy. With both families it is the first of two, see further.
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

// further is where a listener at the wildcard's port is beside it.
func (f Family) further(port uint32) []*listenerv3.AdditionalAddress {
	if f != DualStack {
		return nil
	}
	return []*listenerv3.AdditionalAddress{{Address: socket("::", port)}}
}

// loopbacks are where a listener at the loopback's port is beside it.
func (f Family) loopbacks(port uint32) []*listenerv3.AdditionalAddress {
	if f != DualStack {
		return nil
	}
	return []*listenerv3.AdditionalAddress{{Address: socket("::1", port)}}
}

// lookup is the family of addresses that names are resolved to, in the words of DNS clusters and of the DNS cache.
func (f Family) lookup() (commondnsv3.DnsLookupFamily, clusterv3.Cluster_DnsLookupFamily) {
	if f == IPv6 {
		return commondnsv3.DnsLookupFamily_AUTO, clusterv3.Cluster_AUTO // IPv6 if there is any
	}
	return commondnsv3.DnsLookupFamily_V4_PREFERRED, clusterv3.Cluster_V4_PREFERRED
}

// The addresses that the pod's rules know the proxy's own inbound connections by.
const (
	passthroughSource  = "127.0.0.6"
	passthroughSource6 = "::6"
)

// source is where connections to the workload come from. Envoy takes the address of the family that it connects to.
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
