package xds

import (
	"net/netip"
	"slices"
	"sort"
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

// Name is a host of the mesh with the addresses that DNS answers for it.
type Name struct {
	Host      string   // "*.example.com" matches every name below
	Addresses []string // IPv4 and IPv6
	Service   string   // of a host SERVICE.NAMESPACE.svc.SUFFIX in the proxy's own domain, or POD.SERVICE; else ""
	Namespace string

	pod string // the first label of a name of a Pod; "" for the name of a service
}

// Names returns the names that DNS answers for a proxy of view v, by host; r must be built for v. They are the hosts of
// the services that the proxy may call, with the addresses of the service, or of a headless one those of its endpoints
// that are ready, and a name for each Pod with a hostname, as in Kubernetes' DNS. A service without addresses has no name here: only the DNS server of the network can resolve it.
func (r *Resources) Names(v Outbound) []Name {
	if r.scope == nil {
		return nil // gRPC clients find a service by its listener
	}
	return names(r.scope, v)
}

func names(scope *model.Scope, v Outbound) []Name {
	byHost := map[string]*Name{}
	add := func(name, pod string, addresses []string) {
		host := strings.TrimPrefix(pod+"."+name, ".")
		n := byHost[host]
		if n == nil {
			n = &Name{Host: host, pod: pod}
			if n.Service, n.Namespace = serviceOf(name, v.Domain); pod != "" && n.Service != "" {
				n.Service = pod + "." + n.Service
			}
			byHost[host] = n
		}
		n.add(addresses)
	}
	for _, egress := range scope.Egress() {
		for _, s := range egress.Services {
			answers := v.answers(scope, s)
			add(s.Host, "", answers)
			for _, name := range aliasesIn(scope, s) {
				add(name, "", answers)
			}
			for _, e := range s.Endpoints {
				if e.Hostname != "" && e.Health.TakesRequests() && isIP(e.Address) {
					add(s.Host, e.Hostname, []string{e.Address})
				}
			}
		}
	}
	var out []Name
	for _, n := range byHost {
		if len(n.Addresses) > 0 {
			out = append(out, *n)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Host < out[j].Host })
	return out
}

// answers returns the addresses for the name of a service. Address ranges are left out.
func (v Outbound) answers(scope *model.Scope, s *model.Service) []string {
	all := v.addressesOf(scope, s)
	if s.Headless {
		all = nil
		for _, e := range s.Endpoints {
			sent := func(p model.Port) bool {
				return !v.withheld(s, e, p, s.Namespace == v.Namespace, scope.Settings())
			}
			if e.Health.TakesRequests() && (len(s.Ports) == 0 || slices.ContainsFunc(s.Ports, sent)) {
				all = append(all, e.Address)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(a string) bool { return !isIP(a) })
}

// addressesOf returns a service's own addresses in the proxy's cluster. For a service without any, it returns its
// automatic addresses if the proxy's DNS answers with them.
func (v Outbound) addressesOf(scope *model.Scope, s *model.Service) []string {
	if own := s.AddressesIn(v.Cluster); len(own) > 0 || !v.AutoAddresses || v.none() {
		return own
	}
	four, six, ok := scope.AutoAddresses(s)
	switch {
	case !ok:
		return nil
	case v.Family == IPv4:
		return []string{four.String()}
	case v.Family == IPv6:
		return []string{six.String()}
	default:
		return []string{four.String(), six.String()}
	}
}

// short returns the shorter forms of the name that programs may use in a DNS domain.
func (n Name) short(domain string) []string {
	if n.pod == "" {
		return shortNames(n.Host, domain)
	}
	out := shortNames(strings.TrimPrefix(n.Host, n.pod+"."), domain)
	for i, name := range out {
		out[i] = n.pod + "." + name
	}
	return out
}

func (n *Name) add(addresses []string) {
	for _, a := range addresses {
		if a = canonical(a); !slices.Contains(n.Addresses, a) {
			n.Addresses = append(n.Addresses, a)
		}
	}
}

// serviceOf splits SERVICE.NAMESPACE.svc.SUFFIX, if domain is ANY.svc.SUFFIX.
func serviceOf(host, domain string) (service, namespace string) {
	_, suffix, ok := strings.Cut(domain, ".svc.")
	prefix, found := strings.CutSuffix(host, ".svc."+suffix)
	service, namespace, qualified := strings.Cut(prefix, ".")
	if !ok || !found || !qualified || strings.Contains(namespace, ".") || model.IsWildcard(host) {
		return "", ""
	}
	return service, namespace
}
