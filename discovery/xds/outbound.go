package xds

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

func (v Outbound) none() bool { return v.Mode == node.None }

// outboundListener is one address to which programs connect, with the protocols that it accepts.
type outboundListener struct {
	name     string
	address  string // an IP address, or a Unix socket's path
	port     uint32
	bind     bool
	http     string // name of its route configuration; "" without HTTP
	sniff    bool   // HTTP is detected
	parts    []servicePart
	chains   []*listenerv3.FilterChain // of parts
	fallback *listenerv3.Filter        // for connections that no chain matches; nil for the mesh's default
	ranges   []string                  // address ranges in which HTTP is detected as well; Envoy selects chains by address first
	kept     []string                  // addresses in ranges of the parts that belong to others: see model.TakenFrom
}

// listenerAt returns the name of a listener.
func listenerAt(address string, port uint32) string {
	if port == 0 {
		return address
	}
	return listenerName(address, port)
}

// outboundListeners collects listeners by name: services with the same port share listeners.
type outboundListeners struct {
	view  Outbound
	mesh  *model.Mesh
	scope *model.Scope
	seen  observed
	all   map[string]*outboundListener
	order []string
}

// at returns the listener of an address. bind reports whether programs connect to the address directly, without
// interception; if callers differ, the first one decides. A listener at an address that the proxy itself uses is
// returned, but is not added to the result.
func (ls *outboundListeners) at(address string, port uint32, bind bool) *outboundListener {
	l := &outboundListener{address: canonical(address), port: port, bind: bind}
	if bind && ls.view.Family == DualStack && l.address == IPv6.loopback() {
		l.address = IPv4.loopback() // both addresses belong to one listener
	}
	if ls.reserved(l) {
		return l
	}
	l.name = listenerAt(l.address, l.port)
	if known, ok := ls.all[l.name]; ok {
		return known
	}
	ls.all[l.name] = l
	ls.order = append(ls.order, l.name)
	return l
}

// reserved reports whether the proxy itself uses the address of a listener.
func (ls *outboundListeners) reserved(l *outboundListener) bool {
	if l.address == ls.view.Family.loopback() && ls.view.HTTPProxyPort != 0 && l.port == uint32(ls.view.HTTPProxyPort) {
		return true
	}
	ip, err := netip.ParseAddr(l.address)
	return err == nil && ip.IsUnspecified() && !ls.view.none() && ls.scope.Settings().Reserved(l.port) != ""
}

// addresses returns the addresses of the listeners for a service's port, and whether the proxy binds them. Under NONE,
// connections are not intercepted, so only addresses of the host work: a service is reached at its loopback addresses
// if it has any, else, if there is no HTTP proxy, at its port on the loopback address.
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
			if isIP(endpoint.Address) && !ls.view.withheld(s, endpoint, p, s.Namespace == ls.view.Namespace, ls.scope.Settings()) {
				addresses = append(addresses, endpoint.Address)
			}
		}
		return addresses, false
	case len(own) > 0:
		return slices.DeleteFunc(slices.Clone(own), func(a string) bool { return s.Registry == "" && len(ls.taken([]string{a}, p.Number, s.Namespace)) > 0 }), false
	default:
		return []string{ls.view.Family.wildcard()}, false
	}
}

// taken returns the addresses in some ranges that belong to others than the namespace whose object has the ranges.
func (ls *outboundListeners) taken(ranges []string, port uint32, namespace string) (out []string) {
	for _, ip := range ls.mesh.TakenFrom(ranges, port, namespace, ls.view.Cluster) {
		out = append(out, ip.String())
	}
	return out
}

// keep notes the addresses of others in the ranges of a service and of its routes.
func (ls *outboundListeners) keep(l *outboundListener, s *model.Service, p model.Port, rule *model.Config[*networking.VirtualService], subnets []string) {
	if s.Registry == "" {
		l.kept = append(l.kept, ls.taken(subnets, p.Number, s.Namespace)...)
	}
	if rule != nil {
		l.kept = append(l.kept, ls.taken(model.DestinationSubnets(rule.Spec), p.Number, rule.Namespace)...)
	}
}

// singleAddresses returns a service's addresses, or nil if it has address ranges: a filter chain can match a range, but
// a listener cannot have one as its address.
func singleAddresses(addresses []string) []string {
	if slices.ContainsFunc(addresses, func(a string) bool { return !isIP(a) }) {
		return nil
	}
	return addresses
}

// addService adds one port of a service to its listeners.
func (ls *outboundListeners) addService(e model.Egress, s *model.Service, p model.Port) {
	addresses, bind := ls.addresses(e, s, p)
	owner := e.Rules.For(s.Host)
	rule := ruleSpec(owner)
	r := router{scope: ls.scope, gateway: model.MeshGateway, port: p.Number}
	var subnets []string
	if own := s.AddressesIn(ls.view.Cluster); len(singleAddresses(own)) != len(own) {
		subnets = own
	}
	for _, address := range addresses {
		address = canonical(address)
		l := ls.at(address, p.Number, bind)
		own := address != ls.view.Family.wildcard() && !(bind && address == ls.view.Family.loopback())
		if !own && !p.Protocol.IsHTTP() {
			ls.keep(l, s, p, owner, subnets)
		}
		switch {
		case p.Protocol.IsHTTP():
			l.http = cmp.Or(l.http, strconv.Itoa(int(p.Number)))
		case p.Protocol.IsTLS():
			if own && (rule == nil || len(r.sniChains(ls.seen, rule)) == 0) {
				l.add(s, p, nil, subnets) // the address is the service's alone
			} else {
				l.addTLS(s, p, rule)
			}
		case p.Protocol == model.Unknown:
			l.sniff = true
			shared := strconv.Itoa(int(p.Number))
			if alone := fmt.Sprintf("%s:%d", s.Host, p.Number); own && !s.Headless && (l.http == "" || l.http == alone) {
				l.http = alone
			} else {
				l.http = shared // the host of a request selects its service
			}
			switch {
			case own:
				l.add(s, p, rule, subnets)
			case bind: // no address tells its service: the first one gets the bytes, as at a port of TCP
				l.add(s, p, rule, nil)
			case len(subnets) > 0:
				l.ranges = append(l.ranges, subnets...)
				l.add(s, p, rule, subnets)
			}
		default:
			l.add(s, p, rule, subnets)
		}
	}
}

// addTCP adds TCP filter chains. The first one without address conditions becomes the default of the listener.
func (l *outboundListener) addTCP(chains []*listenerv3.FilterChain) {
	for _, c := range chains {
		if len(c.FilterChainMatch.PrefixRanges)+len(c.FilterChainMatch.SourcePrefixRanges) > 0 {
			l.chains = append(l.chains, c)
		} else if l.fallback == nil {
			l.fallback = c.Filters[0]
		}
	}
}

// build returns the listener. Connections that match no chain are handled as connections to unknown destinations.
func (ls *outboundListeners) build(l *outboundListener) *listenerv3.Listener {
	for _, part := range l.parts {
		part.translate(ls, l)
	}
	fallback := l.fallback
	if fallback == nil {
		fallback = ls.unknown()
	}
	if len(l.kept) > 0 { // before the chains of the ranges, which lose these addresses
		l.ranges = append(l.ranges, l.kept...)
		l.chains = append([]*listenerv3.FilterChain{{
			FilterChainMatch: &listenerv3.FilterChainMatch{PrefixRanges: ranges(l.kept)}, Filters: []*listenerv3.Filter{fallback},
		}}, l.chains...)
	}
	out := &listenerv3.Listener{
		Name: l.name, Address: l.socket(), TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		FilterChains: uniqueChains(l.chains),
	}
	if !l.bind {
		out.BindToPort = wrapperspb.Bool(false)
		if l.address == ls.view.Family.wildcard() { // it also receives intercepted connections of the other family
			out.AdditionalAddresses = ls.view.Family.further(l.port)
		}
	} else if l.address == ls.view.Family.loopback() && l.port != 0 {
		out.AdditionalAddresses = ls.view.Family.loopbacks(l.port)
	}
	if slices.ContainsFunc(out.FilterChains,
		func(c *listenerv3.FilterChain) bool { return c.GetFilterChainMatch().GetTransportProtocol() == "tls" }) {
		out.ListenerFilters = append(out.ListenerFilters, tlsInspector())
	}
	if l.http != "" {
		manager := ls.seen.newHCM("outbound_"+l.name, corev3.TrafficDirection_OUTBOUND)
		manager.RouteSpecifier = fetched(l.http)
		if l.sniff || l.fallback != nil || !l.bind {
			out.ListenerFilters = append(out.ListenerFilters, httpInspector())
			out.FilterChains = sniffed(ls.seen.httpChain(networkFilter(hcmFilter, manager)), ranges(l.ranges), out.FilterChains...)
		} else {
			fallback = networkFilter(hcmFilter, manager) // all connections to it are HTTP
		}
	}
	out.DefaultFilterChain = &listenerv3.FilterChain{Filters: []*listenerv3.Filter{fallback}}
	ls.waits(out)
	return out
}

// waits sets how long Envoy inspects a connection on which the client waits for the server to send first.
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

// unknown returns the filter for connections to unknown destinations, by the policy of the scope.
func (ls *outboundListeners) unknown() *listenerv3.Filter {
	return ls.seen.tcpTo(unknownCluster(ls.scope))
}

// unknownCluster returns the cluster for unknown destinations: the egress proxy, the black hole or passthrough.
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

const (
	httpProxyRoute = "http_proxy"
	sniffTimeout   = 5 * time.Second // our own value: Istio has none, see docs/compat.md
)

// listeners adds a sidecar's outbound listeners, and the routes of its HTTP listeners.
func (b *builder) listeners() {
	ls := &outboundListeners{view: b.view, mesh: b.mesh, scope: b.scope, seen: b.seen, all: map[string]*outboundListener{}}
	routes := routeSet{b: b}
	for i, e := range b.scope.Egress() {
		if e.Listener.GetPort() != nil {
			b.declared(ls, &routes, e, i)
			continue
		}
		for _, s := range e.Services {
			for _, p := range s.Ports {
				if p.Protocol != model.UDP {
					ls.addService(e, s, p)
				}
			}
		}
	}
	if b.view.HTTPProxyPort != 0 {
		b.out.Listeners = append(b.out.Listeners, b.httpProxyListener())
		routes.httpProxy(anyPort(b.scope.Egress()))
	}
	b.listen(ls)
	for _, name := range ls.order {
		l := ls.all[name]
		b.out.Listeners = append(b.out.Listeners, b.listener(ls, l))
		if l.http == "" {
			continue
		}
		for i, e := range b.scope.Egress() {
			switch host, _, sniffed := strings.Cut(l.http, ":"); {
			case e.Listener.GetPort() != nil:
			case sniffed:
				if b.scope.Service(host) != nil {
					routes.sniffed(l.http, i, l.port)
				}
			default:
				routes.port(l.http, i, l.port)
			}
		}
	}
	if !b.view.none() {
		b.out.Listeners = append(b.out.Listeners, b.virtualOutbound(ls))
	}
}

// anyPort returns the index of the egress that applies to every port, or -1 if every egress listener of the Sidecar has
// its own port.
func anyPort(egress []model.Egress) int {
	return slices.IndexFunc(egress, func(e model.Egress) bool { return e.Listener.GetPort() == nil })
}

// declared adds a listener that a Sidecar declares. It leads to the ports of its services that have the listener's
// number; a Unix socket leads to all ports.
func (b *builder) declared(ls *outboundListeners, routes *routeSet, e model.Egress, egress int) {
	port := e.Listener.Port
	address := e.Listener.Bind
	bind := e.Listener.CaptureMode == networking.CaptureMode_NONE ||
		b.view.none() && e.Listener.CaptureMode == networking.CaptureMode_DEFAULT
	if path, ok := isUnix(address); ok {
		if model.AgentSocket(path) {
			return // Envoy would remove it
		}
		address, bind, port = path, true, &networking.SidecarPort{Protocol: port.Protocol}
	}
	if address == "" {
		address = b.view.Family.wildcard()
		if bind {
			address = b.view.Family.loopback()
		}
	}
	protocol, _ := model.ParseProtocol(port.Protocol)
	l := ls.at(address, port.Number, bind)
	if protocol.IsHTTP() {
		l.http = strconv.Itoa(int(port.Number))
		if e.Listener.Bind != "" {
			l.http = fmt.Sprintf("%s:%d", e.Listener.Bind, port.Number)
		}
		routes.port(l.http, egress, port.Number)
		return
	}
	for _, s := range e.Services {
		for _, p := range s.Ports {
			if port.Number != 0 && p.Number != port.Number || p.Protocol == model.UDP || p.Protocol.IsHTTP() {
				continue
			}
			owner := e.Rules.For(s.Host)
			if address == b.view.Family.wildcard() {
				ls.keep(l, s, p, owner, nil)
			}
			if rule := ruleSpec(owner); p.Protocol.IsTLS() {
				l.addTLS(s, p, rule)
			} else {
				l.add(s, p, rule, nil)
			}
		}
	}
}

// virtualOutbound returns the listener of all intercepted connections. Envoy passes a connection to the listener of its
// original destination; without such a listener, it is handled as a connection to an unknown destination.
func (b *builder) virtualOutbound(ls *outboundListeners) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name: model.VirtualOutbound, Address: socket(b.view.Family.wildcard(), b.mesh.Settings().OutboundPort()),
		AdditionalAddresses: b.view.Family.further(b.mesh.Settings().OutboundPort()),
		UseOriginalDst:      wrapperspb.Bool(true),
		TrafficDirection:    corev3.TrafficDirection_OUTBOUND,
		// A connection to the listener's own address would be forwarded to the listener again.
		FilterChains: []*listenerv3.FilterChain{{
			Name:             "virtualOutbound-blackhole",
			FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(b.mesh.Settings().OutboundPort())},
			Filters:          []*listenerv3.Filter{b.seen.tcpTo(blackHoleCluster)},
		}},
		DefaultFilterChain: &listenerv3.FilterChain{
			Name:    "virtualOutbound-catchall-tcp",
			Filters: []*listenerv3.Filter{ls.unknown()},
		},
	}
	if b.view.Mode == node.TProxy {
		l.Transparent = wrapperspb.Bool(true)
	}
	return l
}

// httpProxyListener returns the listener for outbound HTTP of programs that use the proxy as an HTTP proxy
// (http_proxy).
func (b *builder) httpProxyListener() *listenerv3.Listener {
	name := listenerName(b.view.Family.loopback(), uint32(b.view.HTTPProxyPort))
	manager := b.seen.newHCM("outbound_"+name, corev3.TrafficDirection_OUTBOUND)
	manager.HttpProtocolOptions = &corev3.Http1ProtocolOptions{AllowAbsoluteUrl: wrapperspb.Bool(true), AcceptHttp_10: b.seen.http10}
	manager.RouteSpecifier = fetched(httpProxyRoute)
	if b.view.explicit() {
		forwardByName(manager, b.view.Family)
	}
	l := directListener(name, b.view.Family.loopback(), uint32(b.view.HTTPProxyPort), corev3.TrafficDirection_OUTBOUND,
		networkFilter(hcmFilter, manager))
	l.AdditionalAddresses = b.view.Family.loopbacks(uint32(b.view.HTTPProxyPort))
	return l
}

func directListener(name, ip string, port uint32, direction corev3.TrafficDirection,
	filter *listenerv3.Filter,
) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: name, Address: socket(ip, port), TrafficDirection: direction,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}},
	}
}
