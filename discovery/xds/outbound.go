package xds

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

func (v Outbound) none() bool { return v.Mode == node.None }

// outboundListener is one address that programs dial, and what may speak there.
type outboundListener struct {
	address  string // an IP address, or a Unix socket's path
	port     uint32
	bind     bool
	http     string // its route configuration, "" where HTTP is nothing special
	sniff    bool   // the protocol is to be found out
	chains   []*listenerv3.FilterChain
	fallback *listenerv3.Filter // for what no chain matches, nil for the mesh's default
	ranges   []string           // where HTTP is to be found out as well; Envoy chooses chains by addresses first
}

func (l *outboundListener) name() string {
	if l.port == 0 {
		return l.address
	}
	return listenerName(l.address, l.port)
}

// outboundListeners collects listeners by name: services share those of their ports.
type outboundListeners struct {
	view  Outbound
	scope *model.Scope
	seen  observed
	all   map[string]*outboundListener
	order []string
}

// at returns the listener of an address. bind is whether programs connect to it themselves; nobody else may have
// said otherwise, so the first decides. A listener that would be in the place of the proxy's own is no part of the result.
func (ls *outboundListeners) at(address string, port uint32, bind bool) *outboundListener {
	l := &outboundListener{address: canonical(address), port: port, bind: bind}
	if bind && ls.view.Family == DualStack && l.address == IPv6.loopback() {
		l.address = IPv4.loopback() // they are one listener's
	}
	if ls.reserved(l) {
		return l
	}
	if known, ok := ls.all[l.name()]; ok {
		return known
	}
	ls.all[l.name()] = l
	ls.order = append(ls.order, l.name())
	return l
}

// reserved reports whether the proxy itself listens at an address.
func (ls *outboundListeners) reserved(l *outboundListener) bool {
	if l.address == ls.view.Family.loopback() && ls.view.HTTPProxyPort != 0 && l.port == uint32(ls.view.HTTPProxyPort) {
		return true
	}
	ip, err := netip.ParseAddr(l.address)
	return err == nil && ip.IsUnspecified() && !ls.view.none() && ls.scope.Settings().Reserved(l.port) != ""
}

// addresses returns where a service's port is dialled, and whether the proxy binds there. Under NONE nothing leads to
// an address that the host does not have: a service is reached at a loopback address of its own, or else, where there
// is no HTTP proxy, at its port of the host's.
func (ls *outboundListeners) addresses(e model.Egress, s *model.Service, p model.Port) (addresses []string, bind bool) {
	own := singleAddresses(ls.view.addressesOf(ls.scope, s))
	switch {
	case ls.view.none() && e.Listener.GetCaptureMode() != networking.CaptureMode_IPTABLES:
		for _, a := range own {
			if ip, err := netip.ParseAddr(a); err == nil && ip.IsLoopback() {
				addresses = append(addresses, a)
			}
		}
		if len(addresses) == 0 && ls.view.HTTPProxyPort == 0 {
			addresses = []string{ls.view.Family.loopback()}
		}
		return addresses, true
	case p.Protocol.IsHTTP():
		return []string{ls.view.Family.wildcard()}, false
	case s.Headless:
		for _, endpoint := range s.Endpoints {
			if isIP(endpoint.Address) {
				addresses = append(addresses, endpoint.Address)
			}
		}
		return addresses, false
	case len(own) > 0:
		return own, false
	default:
		return []string{ls.view.Family.wildcard()}, false
	}
}

// singleAddresses returns a service's addresses, nothing where it has ranges: these are matched, not listened on.
func singleAddresses(addresses []string) []string {
	if slices.ContainsFunc(addresses, func(a string) bool { return !isIP(a) }) {
		return nil
	}
	return addresses
}

// addService adds one port of a service to the listeners that lead to it.
func (ls *outboundListeners) addService(e model.Egress, s *model.Service, p model.Port) {
	addresses, bind := ls.addresses(e, s, p)
	rule := ruleSpec(e.Rules.For(s.Host))
	r := router{scope: ls.scope, gateway: model.MeshGateway, port: p.Number}
	var subnets []string
	if own := s.AddressesIn(ls.view.Cluster); len(singleAddresses(own)) != len(own) {
		subnets = own
	}
	for _, address := range addresses {
		address = canonical(address)
		l := ls.at(address, p.Number, bind)
		own := address != ls.view.Family.wildcard() && !(bind && address == ls.view.Family.loopback())
		switch {
		case p.Protocol.IsHTTP():
			l.http = cmp.Or(l.http, strconv.Itoa(int(p.Number)))
		case p.Protocol.IsTLS():
			if chains := r.sniChains(ls.seen, rule); own && len(chains) == 0 {
				l.addTCP(r.tcpChains(ls.seen, s, nil, subnets)) // who dials it means the service, whatever a handshake names
			} else {
				l.chains = append(l.chains, r.tlsChains(ls.seen, s, rule)...)
			}
		case p.Protocol == model.Unknown:
			l.sniff = true
			shared := strconv.Itoa(int(p.Number))
			if alone := fmt.Sprintf("%s:%d", s.Host, p.Number); own && !s.Headless && (l.http == "" || l.http == alone) {
				l.http = alone
			} else {
				l.http = shared // the host of a request decides its service
			}
			switch {
			case own:
				l.addTCP(r.tcpChains(ls.seen, s, rule, subnets))
			case len(subnets) > 0 && !bind:
				l.ranges = append(l.ranges, subnets...)
				l.addTCP(withoutTLS(r.tcpChains(ls.seen, s, rule, subnets)))
			}
		default:
			l.addTCP(r.tcpChains(ls.seen, s, rule, subnets))
		}
	}
}

// addTCP adds chains of bytes; the one without conditions is the listener's default, the first of them.
func (l *outboundListener) addTCP(chains []*listenerv3.FilterChain) {
	for _, c := range chains {
		if len(c.FilterChainMatch.PrefixRanges)+len(c.FilterChainMatch.SourcePrefixRanges) > 0 {
			l.chains = append(l.chains, c)
		} else if l.fallback == nil {
			l.fallback = c.Filters[0]
		}
	}
}

// withoutTLS adds to each chain one that says that it takes what is not encrypted: beside a chain of HTTP, which says so,
// Envoy looks at no other.
func withoutTLS(chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	out := slices.Clone(chains)
	for _, c := range chains {
		plain := proto.CloneOf(c)
		plain.FilterChainMatch.TransportProtocol = "raw_buffer"
		out = append(out, plain)
	}
	return out
}

// build returns the listener. Connections that it does not know go where unknown destinations go.
func (ls *outboundListeners) build(l *outboundListener) *listenerv3.Listener {
	out := &listenerv3.Listener{
		Name: l.name(), Address: l.socket(), TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		FilterChains: uniqueChains(l.chains),
	}
	if !l.bind {
		out.BindToPort = wrapperspb.Bool(false)
		if l.address == ls.view.Family.wildcard() { // what was dialled in the other family is handed to it as well
			out.AdditionalAddresses = ls.view.Family.further(l.port)
		}
	} else if l.address == ls.view.Family.loopback() && l.port != 0 {
		out.AdditionalAddresses = ls.view.Family.loopbacks(l.port)
	}
	fallback := l.fallback
	if fallback == nil {
		fallback = ls.unknown()
	}
	if slices.ContainsFunc(out.FilterChains,
		func(c *listenerv3.FilterChain) bool { return c.GetFilterChainMatch().GetTransportProtocol() == "tls" }) {
		out.ListenerFilters = append(out.ListenerFilters, tlsInspector())
	}
	if l.http != "" {
		manager := ls.seen.newHCM("outbound_"+l.name(), corev3.TrafficDirection_OUTBOUND)
		manager.RouteSpecifier = fetched(l.http)
		if l.sniff || l.fallback != nil || !l.bind {
			out.ListenerFilters = append(out.ListenerFilters, httpInspector())
			http := httpChain(networkFilter(hcmFilter, manager))
			out.FilterChains = append(out.FilterChains, http)
			if in := ranges(l.ranges); len(in) > 0 {
				http = proto.CloneOf(http)
				http.FilterChainMatch.PrefixRanges = in
				out.FilterChains = append(out.FilterChains, http)
			}
		} else {
			fallback = networkFilter(hcmFilter, manager) // it is dialled for HTTP and nothing else
		}
	}
	out.DefaultFilterChain = &listenerv3.FilterChain{Filters: []*listenerv3.Filter{fallback}}
	ls.waits(out)
	return out
}

// waits bounds how long Envoy looks at a connection whose client waits for the server to speak first.
func (ls *outboundListeners) waits(out *listenerv3.Listener) {
	if len(out.ListenerFilters) == 0 {
		return
	}
	out.ContinueOnListenerFiltersTimeout = true
	out.ListenerFiltersTimeout = detectionTimeout(ls.scope.Settings())
}

func detectionTimeout(mesh model.Settings) *durationpb.Duration {
	if t := mesh.Config.GetProtocolDetectionTimeout(); t != nil {
		return t
	}
	return durationpb.New(sniffTimeout)
}

func (l *outboundListener) socket() *corev3.Address {
	if l.port == 0 {
		return pipe(l.address)
	}
	return socket(l.address, l.port)
}

// unknown leads connections to unknown destinations where the scope says.
func (ls *outboundListeners) unknown() *listenerv3.Filter {
	return ls.seen.tcpTo(unknownCluster(ls.scope))
}

// unknownCluster is where unknown destinations go: to the egress proxy, nowhere, or straight on.
func unknownCluster(s *model.Scope) string {
	switch policy := s.OutboundPolicy(); {
	case policy.Proxy != nil:
		return router{scope: s}.clusterOf(policy.Proxy)
	case policy.RegistryOnly:
		return blackHoleCluster
	default:
		return passthroughCluster
	}
}

func ruleSpec(c *model.Config[*networking.VirtualService]) *networking.VirtualService {
	if c == nil {
		return nil
	}
	return c.Spec
}
