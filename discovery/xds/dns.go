package xds

import (
	"net/netip"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/data/dns/v3"
	dnsfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/dns_filter/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

const (
	dnsPort         = 15053 // on loopback, as with Istio's agent: the pod's iptables rules redirect DNS to it
	dnsListener     = "dns"
	dnsOverTCP      = "dns_tcp"
	dnsAnswerTTL    = 30 * time.Second // as in Istio's agent: the addresses of a name may change soon
	dnsResolverTime = 5 * time.Second
	dnsPending      = 1024 // questions that wait for an answer of the resolvers
)

// capturesDNS reports whether DNS queries of programs are redirected to the proxy or its agent, by Istio's metadata.
func (p Proxy) capturesDNS() bool {
	return p.ID.Role == node.Sidecar && p.Metadata.InterceptionMode != node.None && p.text("DNS_CAPTURE") == "true"
}

// DNS returns what the proxy's metadata says about the capture of DNS.
func (p Proxy) DNS() model.DNS {
	setting := func(key string) model.DNSSetting {
		switch p.text(key) {
		case "":
			return model.DNSUnset
		case "true":
			return model.DNSOn
		}
		return model.DNSOff
	}
	return model.DNS{Capture: setting("DNS_CAPTURE"), Auto: setting("DNS_AUTO_ALLOCATE")}
}

// dns returns the listeners of a proxy that answers DNS itself. UDP queries are answered from the names of the mesh;
// for other names Envoy queries the resolvers in the proxy's /etc/resolv.conf. A TCP connection is forwarded to the
// resolver that it was made to: Envoy does not support DNS over TCP.
func (b *builder) dns() []*listenerv3.Listener {
	if !b.view.AnswersDNS {
		return nil
	}
	listen := func(name string, protocol corev3.SocketAddress_Protocol) *listenerv3.Listener {
		at := func(ip string) *corev3.Address {
			a := socket(ip, dnsPort)
			a.GetSocketAddress().Protocol = protocol
			return a
		}
		l := &listenerv3.Listener{
			Name: name, Address: at(b.view.Family.loopback()), TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		}
		if b.view.Family == DualStack {
			l.AdditionalAddresses = []*listenerv3.AdditionalAddress{{Address: at("::1")}}
		}
		return l
	}
	udp := listen(dnsListener, corev3.SocketAddress_UDP)
	udp.UdpListenerConfig = &listenerv3.UdpListenerConfig{}
	udp.ListenerFilters = []*listenerv3.ListenerFilter{listenerFilter("envoy.filters.udp.dns_filter", b.dnsFilter())}
	tcp := listen(dnsOverTCP, corev3.SocketAddress_TCP)
	tcp.ListenerFilters = []*listenerv3.ListenerFilter{originalDestination()}
	tcp.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{b.seen.tcpTo(passthroughCluster)}}}
	return []*listenerv3.Listener{udp, tcp}
}

func (b *builder) dnsFilter() *dnsfilterv3.DnsFilterConfig {
	table := &dnsv3.DnsTable{}
	ttl := durationpb.New(dnsAnswerTTL)
	for _, n := range names(b.scope, b.view) {
		if model.IsWildcard(n.Host) && !strings.HasPrefix(n.Host, "*.") {
			continue // Envoy takes the star for a literal character
		}
		list := &dnsv3.DnsTable_AddressList{Address: dnsAddresses(n.Addresses)}
		endpoint := &dnsv3.DnsTable_DnsEndpoint{EndpointConfig: &dnsv3.DnsTable_DnsEndpoint_AddressList{AddressList: list}}
		for _, host := range append([]string{n.Host}, n.short(b.view.Domain)...) {
			table.VirtualDomains = append(table.VirtualDomains, &dnsv3.DnsTable_DnsVirtualDomain{
				Name: host, Endpoint: endpoint, AnswerTtl: ttl,
			})
		}
	}
	return &dnsfilterv3.DnsFilterConfig{
		StatPrefix:      dnsListener,
		CaseInsensitive: true,
		ServerConfig: &dnsfilterv3.DnsFilterConfig_ServerContextConfig{
			ConfigSource: &dnsfilterv3.DnsFilterConfig_ServerContextConfig_InlineDnsTable{InlineDnsTable: table},
		},
		ClientConfig: &dnsfilterv3.DnsFilterConfig_ClientContextConfig{
			ResolverTimeout:   durationpb.New(dnsResolverTime),
			MaxPendingLookups: dnsPending,
			TypedDnsResolverConfig: &corev3.TypedExtensionConfig{
				Name: "envoy.network.dns_resolver.cares",
				TypedConfig: pack(&caresv3.CaresDnsResolverConfig{
					// Programs have completed the name with the search domains already.
					DnsResolverOptions: &corev3.DnsResolverOptions{NoDefaultSearchDomain: true},
				}),
			},
		},
	}
}

// dnsAddresses adds to a name with IPv4 addresses only the IPv4-mapped IPv6 form of each. Without them Envoy would
// answer an IPv6 query with "no such name", and programs that send both queries at once, such as those with musl, would
// then find no address.
func dnsAddresses(addresses []string) []string {
	var mapped []string
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a)
		if err != nil || !ip.Is4() {
			return addresses
		}
		mapped = append(mapped, "::ffff:"+a)
	}
	return append(append([]string{}, addresses...), mapped...)
}
