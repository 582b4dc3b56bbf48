package xds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

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
