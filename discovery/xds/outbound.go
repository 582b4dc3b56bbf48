package xds

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

const (
	virtualOutboundName = "virtualOutbound"
	virtualOutboundPort = 15001
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
// said otherwise, so the first decides.
func (ls *outboundListeners) at(address string, port uint32, bind bool) *outboundListener {
	l := &outboundListener{address: address, port: port, bind: bind}
	if known, ok := ls.all[l.name()]; ok {
		return known
	}
	ls.all[l.name()] = l
	ls.order = append(ls.order, l.name())
	return l
}

// addresses returns where a service's port is dialled, and whether the proxy binds there. Under NONE nothing leads to
// an address that the host does not have: a service is reached at a loopback address of its own, or else, where there
// is no HTTP proxy, at its port of the host's.
func (ls *outboundListeners) addresses(e model.Egress, s *model.Service, p model.Port) (addresses []string, bind bool) {
	own := singleAddresses(s)
	switch {
	case ls.view.none() && e.Listener.GetCaptureMode() != networking.CaptureMode_IPTABLES:
		for _, a := range own {
			if ip, err := netip.ParseAddr(a); err == nil && ip.IsLoopback() {
				addresses = append(addresses, a)
			}
		}
		if len(addresses) == 0 && ls.view.HTTPProxyPort == 0 {
			addresses = []string{ls.view.loopback()}
		}
		return addresses, true
	case p.Protocol.IsHTTP():
		return []string{ls.view.wildcard()}, false
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
		return []string{ls.view.wildcard()}, false
	}
}

// singleAddresses returns a service's addresses, nothing where it has ranges: these are matched, not listened on.
func singleAddresses(s *model.Service) []string {
	for _, a := range s.Addresses {
		if !isIP(a) {
			return nil
		}
	}
	return s.Addresses
}

// addService adds one port of a service to the listeners that lead to it.
func (ls *outboundListeners) addService(e model.Egress, s *model.Service, p model.Port) {
	addresses, bind := ls.addresses(e, s, p)
	rule := ruleSpec(e.Rules.For(s.Host))
	r := router{ls.scope, model.MeshGateway, p.Number}
	var subnets []string
	if len(singleAddresses(s)) != len(s.Addresses) {
		subnets = s.Addresses
	}
	for _, address := range addresses {
		l := ls.at(address, p.Number, bind)
		own := address != ls.view.wildcard() && !(bind && address == ls.view.loopback())
		switch {
		case p.Protocol.IsHTTP():
			l.http = cmp.Or(l.http, strconv.Itoa(int(p.Number)))
		case p.Protocol.IsTLS():
			l.chains = append(l.chains, r.tlsChains(ls.seen, s, rule)...)
		case p.Protocol == model.Unknown:
			l.sniff = true
			if own && !s.Headless {
				l.http = cmp.Or(l.http, fmt.Sprintf("%s:%d", s.Host, p.Number))
				l.addTCP(r.tcpChains(ls.seen, s, rule, subnets))
			} else if l.http = cmp.Or(l.http, strconv.Itoa(int(p.Number))); own {
				l.addTCP(r.tcpChains(ls.seen, s, rule, subnets))
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

// build returns the listener. What it does not know goes where unknown destinations go.
func (ls *outboundListeners) build(l *outboundListener) *listenerv3.Listener {
	out := &listenerv3.Listener{
		Name: l.name(), Address: l.socket(), TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		FilterChains: uniqueChains(l.chains),
	}
	if !l.bind {
		out.BindToPort = wrapperspb.Bool(false)
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
			out.FilterChains = append(out.FilterChains, httpChain(networkFilter(hcmFilter, manager)))
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
	switch {
	case s.EgressProxy != nil:
		return router{scope: s}.clusterOf(s.EgressProxy)
	case s.RegistryOnly:
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
