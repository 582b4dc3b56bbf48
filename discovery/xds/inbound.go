package xds

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

const (
	virtualInboundName = "virtualInbound"
	virtualInboundPort = 15006
)

// inboundPort is one port of the workload: where others dial it, and where it listens.
type inboundPort struct {
	bind     netip.AddrPort
	protocol model.Protocol
	target   *corev3.Address // nil for the address that was dialled
	own      bool            // the proxy binds; else the connection was intercepted
	tls      *networking.ServerTLSSettings
	pool     *networking.ConnectionPoolSettings
}

func (p inboundPort) port() uint32 { return uint32(p.bind.Port()) }

func (p inboundPort) name() string { return inboundName(p.port()) }

func (p inboundPort) cluster(ipv6 bool, mesh model.Settings) *clusterv3.Cluster {
	var c *clusterv3.Cluster
	if p.target == nil {
		c = inboundPassthrough(ipv6)
		c.Name, c.TypedExtensionProtocolOptions = p.name(), nil
	} else {
		c = newCluster(p.name())
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		c.LoadAssignment = loadAssignment(p.name(), []*endpointv3.LbEndpoint{lbEndpoint(p.target, 0)})
	}
	policy{pool: p.pool}.applyPool(c, target{port: model.Port{Protocol: p.protocol}, mesh: mesh})
	return c
}

// buildInbound adds what leads to the workload: a listener of its own for each port that the proxy binds, and one that
// takes all that was intercepted.
func buildInbound(r *Resources, m *model.Mesh, v Inbound) {
	seen := observe(m, v.Namespace)
	var intercepted []inboundPort
	for _, p := range inboundPorts(m, v) {
		r.Clusters = append(r.Clusters, p.cluster(v.ipv6(), m.Settings()))
		if p.own {
			r.Listeners = append(r.Listeners, p.listener(seen, m.Settings()))
		} else {
			intercepted = append(intercepted, p)
		}
	}
	if v.Mode == node.None {
		return
	}
	r.Clusters = append(r.Clusters, inboundPassthrough(v.ipv6()), blackHole())
	r.Listeners = append(r.Listeners, virtualInbound(seen, v, intercepted, m.Settings()))
}

// listener leads to the workload from an address that the proxy binds.
func (p inboundPort) listener(seen observed, mesh model.Settings) *listenerv3.Listener {
	ip := p.bind.Addr().String()
	l := &listenerv3.Listener{
		Name: listenerName(ip, p.port()), Address: socket(ip, p.port()),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		FilterChains:     p.chains(seen, "inbound_"+listenerName(ip, p.port())),
	}
	inspect(l, p.protocol == model.Unknown, mesh)
	return l
}

// chains returns the ways into the workload by one port. One whose protocol is to be found out has two.
func (p inboundPort) chains(seen observed, statPrefix string) []*listenerv3.FilterChain {
	tcp := &listenerv3.FilterChain{Filters: []*listenerv3.Filter{seen.tcpTo(p.name())}}
	manager := seen.newHCM(statPrefix, corev3.TrafficDirection_INBOUND)
	manager.RouteSpecifier = inlined(fmt.Sprintf("inbound|http|%d", p.port()), toCluster("default", p.name()))
	http := networkFilter(hcmFilter, manager)
	switch {
	case p.protocol == model.Unknown:
		return []*listenerv3.FilterChain{httpChain(http), tcp}
	case p.protocol.IsHTTP():
		tcp.Filters[0] = http
	}
	if p.tls != nil {
		if context := serverTLS(p.tls, Identity{}, []string{"h2", "http/1.1"}); context != nil {
			tcp.TransportSocket = transportSocket(tlsSocket, context)
		}
	}
	return []*listenerv3.FilterChain{tcp}
}

// virtualInbound takes every intercepted connection, by the port that was dialled. Ports that nobody declares lead to
// the workload all the same.
func virtualInbound(seen observed, v Inbound, ports []inboundPort, mesh model.Settings) *listenerv3.Listener {
	anywhere := wildcard(v.ipv6())
	port := uint32(cmp.Or(mesh.Config.GetProxyInboundListenPort(), virtualInboundPort))
	l := &listenerv3.Listener{
		Name: virtualInboundName, Address: socket(anywhere, port), TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters: []*listenerv3.ListenerFilter{originalDestination()},
		// Who dials the listener itself would be sent back to it.
		FilterChains: []*listenerv3.FilterChain{{
			Name:             "virtualInbound-blackhole",
			FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)},
			Filters:          []*listenerv3.Filter{seen.tcpTo(blackHoleCluster)},
		}},
		DefaultFilterChain: &listenerv3.FilterChain{
			Name: "virtualInbound-catchall-tcp", Filters: []*listenerv3.Filter{seen.tcpTo(inboundPassthroughCluster)},
		},
	}
	if v.Mode == node.TProxy {
		l.Transparent = wrapperspb.Bool(true)
		l.ListenerFilters = append(l.ListenerFilters, originalSource())
	}
	sniffed := false
	for _, p := range ports {
		if p.port() == port {
			continue
		}
		sniffed = sniffed || p.protocol == model.Unknown
		for _, c := range p.chains(seen, "inbound_"+listenerName(anywhere, p.port())) {
			if c.FilterChainMatch == nil {
				c.FilterChainMatch = &listenerv3.FilterChainMatch{}
			}
			c.Name = p.name()
			c.FilterChainMatch.DestinationPort = wrapperspb.UInt32(p.port())
			l.FilterChains = append(l.FilterChains, c)
		}
	}
	inspect(l, sniffed, mesh)
	return l
}

// inspect adds the listener filters that chains need, and bounds how long they look.
func inspect(l *listenerv3.Listener, http bool, mesh model.Settings) {
	if !http {
		return
	}
	l.ListenerFilters = append(l.ListenerFilters, tlsInspector(), httpInspector())
	l.ListenerFiltersTimeout = detectionTimeout(mesh)
	l.ContinueOnListenerFiltersTimeout = true
}

// inboundPorts returns what the workload's Sidecar declares, else one for each service that has an endpoint at the
// proxy's address. A port number names the cluster, so each occurs once; the first wins.
func inboundPorts(m *model.Mesh, v Inbound) []inboundPort {
	declared := fromServices(m, v)
	s := m.Sidecar(v.Namespace, v.Labels())
	if s != nil && len(s.Spec.Ingress) > 0 {
		declared = fromIngress(s.Spec.Ingress, v)
	}
	var out []inboundPort
	seen := map[uint16]bool{}
	for _, p := range declared {
		if seen[p.bind.Port()] || p.own && p.loops() {
			continue
		}
		if p.pool == nil && s != nil {
			p.pool = s.Spec.InboundConnectionPool
		}
		seen[p.bind.Port()] = true
		out = append(out, p)
	}
	return out
}

// loops reports whether the listener would forward to itself. One on 0.0.0.0 also takes what is sent to loopback.
func (p inboundPort) loops() bool {
	s := p.target.GetSocketAddress()
	if s.GetPortValue() != p.port() {
		return false
	}
	return p.bind.Addr().IsUnspecified() || s.GetAddress() == p.bind.Addr().String()
}

func fromIngress(ingress []*networking.IstioIngressListener, v Inbound) []inboundPort {
	var out []inboundPort
	for _, entry := range ingress {
		bind, ok := addrPort(entry.GetBind(), v.IP, entry.GetPort().GetNumber())
		target, found := workloadAddress(entry.GetDefaultEndpoint(), v.IP, bind)
		if !ok || !found {
			continue
		}
		protocol, known := model.ParseProtocol(entry.GetPort().GetProtocol())
		if !known && entry.GetPort().GetProtocol() != "" {
			protocol = model.TCP
		}
		own := entry.CaptureMode == networking.CaptureMode_NONE ||
			v.Mode == node.None && entry.CaptureMode == networking.CaptureMode_DEFAULT
		out = append(out, inboundPort{bind, protocol, target, own, entry.Tls, entry.ConnectionPool})
	}
	return out
}

func fromServices(m *model.Mesh, v Inbound) []inboundPort {
	var out []inboundPort
	for _, s := range m.ServicesAt(v.addresses()...) {
		for _, e := range s.Endpoints {
			if !v.Owns(e.Address) {
				continue
			}
			for _, port := range s.Ports {
				bind, ok := addrPort(e.Address, "", e.PortOn(port))
				switch {
				case !ok || port.Protocol == model.UDP:
				case v.Mode == node.None:
					out = append(out, inboundPort{
						bind: bind, protocol: port.Protocol, target: loopback(bind),
						own: true,
					})
				default:
					out = append(out, inboundPort{bind: bind, protocol: port.Protocol})
				}
			}
		}
	}
	return out
}

// workloadAddress reads a defaultEndpoint in Istio's forms: 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT and [::]:PORT
// for the proxy's own address, unix:///path; empty for the same port on loopback.
func workloadAddress(text, own string, bind netip.AddrPort) (*corev3.Address, bool) {
	if text == "" {
		return loopback(bind), true
	}
	if path, ok := strings.CutPrefix(text, "unix://"); ok {
		return pipe(path), path != ""
	}
	target, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil, false
	}
	if target.Addr().IsUnspecified() {
		return socket(own, uint32(target.Port())), true
	}
	return socket(target.Addr().String(), uint32(target.Port())), true
}

func loopback(bind netip.AddrPort) *corev3.Address {
	if bind.Addr().Is6() {
		return socket(netip.IPv6Loopback().String(), uint32(bind.Port()))
	}
	return socket("127.0.0.1", uint32(bind.Port()))
}

// addrPort parses address, or fallback where it is empty.
func addrPort(address, fallback string, port uint32) (netip.AddrPort, bool) {
	if address == "" {
		address = fallback
	}
	ip, err := netip.ParseAddr(address)
	return netip.AddrPortFrom(ip, uint16(port)), err == nil && port > 0 && port <= 65535
}
