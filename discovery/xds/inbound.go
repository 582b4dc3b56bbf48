package xds

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// inboundPort is one port of the workload: the address that clients use, and the address on which the workload listens.
type inboundPort struct {
	bind     netip.AddrPort
	protocol model.Protocol
	target   *corev3.Address // nil for the original destination of the connection
	own      bool            // the proxy binds the address; else the connection was intercepted
	tls      *networking.ServerTLSSettings
	identity Identity // of tls
	pool     *networking.ConnectionPoolSettings
	guard    guard
	socket   *corev3.TransportSocket // of mutual TLS, where guard needs it
}

func (p inboundPort) port() uint32 { return uint32(p.bind.Port()) }

func (p inboundPort) name() string { return inboundName(p.port()) }

func (p inboundPort) cluster(f Family, mesh model.Settings) *clusterv3.Cluster {
	var c *clusterv3.Cluster
	if p.target == nil {
		c = inboundPassthrough(f)
		c.Name, c.TypedExtensionProtocolOptions = p.name(), nil
	} else {
		c = newCluster(p.name())
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		c.LoadAssignment = loadAssignment(p.name(), []*endpointv3.LbEndpoint{lbEndpoint(p.target, 0)})
	}
	policy{pool: p.pool}.applyPool(c, target{port: model.Port{Protocol: p.protocol}, mesh: mesh})
	return c
}

// InboundInputs holds all inputs of the inbound resources of a proxy.
type InboundInputs struct {
	view     Inbound
	mesh     model.Settings
	tracer   *meshconfig.MeshConfig_ExtensionProvider
	sidecar  *networking.Sidecar
	services []*model.Service // with an endpoint at one of the proxy's addresses
	peer     model.PeerPolicy
	policies []model.Policy // of the workload

	authorizers []authz.Authorizer // whom its policies name; a gRPC server asks nobody
}

// InboundOf returns the inputs of the inbound resources for view v in a mesh.
func InboundOf(m *model.Mesh, v Inbound) InboundInputs {
	in := InboundInputs{view: v}
	if v.Gateway {
		return in // a gateway has no workload
	}
	in.mesh, in.tracer, in.services = m.Settings(), tracerOf(m, v.Namespace), ownFirst(m.ServicesAt(v.addresses()...), v.Namespace)
	labels := v.Labels()
	in.peer, in.policies = m.Peers(v.Namespace).Of(labels), m.Policies(v.Namespace, labels)
	if !v.Proxyless {
		in.authorizers = authorizersOf(m, v.Namespace, in.policies)
	}
	if s := m.Sidecar(v.Namespace, labels); s != nil {
		in.sidecar = s.Spec
	}
	return in
}

// ownFirst returns the services of the proxy's namespace; if there are none, all. Anyone may list any address as an
// endpoint of a Service or a ServiceEntry: by it another namespace must not declare the ports and protocols of a
// workload.
func ownFirst(all []*model.Service, namespace string) []*model.Service {
	foreign := func(s *model.Service) bool { return s.Namespace != namespace }
	if !slices.ContainsFunc(all, foreign) {
		return all
	}
	if own := slices.DeleteFunc(slices.Clone(all), foreign); len(own) > 0 {
		return own
	}
	return all
}

// Same reports whether both give the same resources.
func (in InboundInputs) Same(other InboundInputs) bool {
	return in.view == other.view && in.mesh == other.mesh && in.tracer == other.tracer && in.sidecar == other.sidecar && in.peer == other.peer &&
		slices.Equal(in.services, other.services) && slices.Equal(in.policies, other.policies) && slices.Equal(in.authorizers, other.authorizers)
}

// Build returns the resources for traffic to the workload: a listener for each port that the proxy binds itself, and
// one for all intercepted connections.
func (in InboundInputs) Build() *Resources {
	r, v := &Resources{}, in.view
	if v.Gateway {
		return r
	}
	if v.Proxyless {
		return in.serverListeners()
	}
	guards := policyFiltersOf(in.policies, in.mesh, authz.Proxy{Authorizers: in.authorizers})
	seen := observe(in.mesh, in.tracer, byDestination.reports(v.Reports))
	seen.http10, seen.guarded = v.HTTP10, len(guards.http) > 0
	var intercepted []inboundPort
	for _, p := range in.ports() {
		r.Clusters = append(r.Clusters, p.cluster(v.family(), in.mesh))
		if p.own {
			r.Listeners = append(r.Listeners, p.listener(seen, in.mesh))
		} else {
			intercepted = append(intercepted, p)
		}
	}
	if v.Mode != node.None {
		r.Clusters = append(r.Clusters, inboundPassthrough(v.family()), blackHole())
		r.Listeners = append(r.Listeners, in.virtualInbound(seen, intercepted))
	}
	for _, l := range r.Listeners {
		seen.addRefused(l)
	}
	guards.protect(r.Listeners)
	guards.undetectedAt(r.Listeners, in.asked())
	r.Listeners = openable(r.Listeners, v.Unprivileged, v.Own)
	return r.normalize()
}

// asked returns the workload's ports at which it is a provider of MeshConfig: questions and spans are no requests that a program sends, so
// that no proxy marks them as HTTP in mutual TLS.
func (in InboundInputs) asked() (ports []uint32) {
	zipkin, otel := in.tracer.GetZipkin(), in.tracer.GetOpentelemetry()
	clusters := []string{outboundName(zipkin.GetPort()+otel.GetPort(), "", in.mesh.Domain.Qualify(zipkin.GetService()+otel.GetService(), "default"))}
	for _, a := range in.authorizers {
		clusters = append(clusters, a.Cluster)
	}
	for _, s := range in.services {
		for _, e := range s.Endpoints {
			for _, p := range s.Ports {
				if in.view.Owns(e.Address) && slices.Contains(clusters, outboundName(p.Number, "", s.Host)) {
					ports = append(ports, e.PortOn(p))
				}
			}
		}
	}
	return ports
}

// listener returns a listener that the proxy binds, for traffic to the workload.
func (p inboundPort) listener(seen observed, mesh model.Settings) *listenerv3.Listener {
	ip := p.bind.Addr().String()
	l := &listenerv3.Listener{
		Name: listenerName(ip, p.port()), Address: socket(ip, p.port()),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		FilterChains:     p.chains(seen, "inbound_"+listenerName(ip, p.port()), mesh),
	}
	if p.guard.inspects() {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector())
		waitsFor(l, mesh)
	}
	if p.protocol == model.Unknown && p.guard != guardClosed {
		sniff(l, mesh)
	}
	return l
}

// chains returns the filter chains for one port of the workload.
func (p inboundPort) chains(seen observed, statPrefix string, mesh model.Settings) []*listenerv3.FilterChain {
	switch {
	case p.guard == guardClosed:
		return []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{seen.tcpTo(blackHoleCluster)}}}
	case p.guard.inspects():
		return entrance{
			protocol: p.protocol, detected: seen.detected(), tcp: seen.tcpTo(p.name()), socket: p.socket,
			http: func(mutual bool) *listenerv3.Filter { return p.http(seen, statPrefix, mutual) },
		}.chains(p.guard)
	case p.protocol == model.Unknown:
		return sniffed(seen.httpChain(p.http(seen, statPrefix, false)), nil,
			&listenerv3.FilterChain{Filters: []*listenerv3.Filter{seen.tcpTo(p.name())}})
	}
	chain := &listenerv3.FilterChain{}
	if p.protocol.IsHTTP() {
		chain.Filters = []*listenerv3.Filter{p.http(seen, statPrefix, false)}
	} else {
		chain.Filters = []*listenerv3.Filter{seen.tcpTo(p.name())}
	}
	if p.tls != nil {
		terminate(chain, serverTLS(p.tls, mesh, p.identity, []string{"h2", "http/1.1"}))
	}
	return []*listenerv3.FilterChain{chain}
}

// http returns the filter for HTTP. mutual is whether its connections have mutual TLS, so that it names the client.
func (p inboundPort) http(seen observed, statPrefix string, mutual bool) *listenerv3.Filter {
	manager := seen.newHCM(statPrefix, corev3.TrafficDirection_INBOUND)
	if mutual {
		namesClient(manager)
	}
	manager.RouteSpecifier = inlined(fmt.Sprintf("inbound|http|%d", p.port()), toCluster("default", p.name()))
	return networkFilter(hcmFilter, manager)
}

// ports returns the ports that the workload's Sidecar declares, else those of each service that has an endpoint at the
// proxy's address. The cluster is named by the port number, so each number occurs once; the first one is used.
func (in InboundInputs) ports() []inboundPort {
	declared, s := fromServices(in.services, in.view), in.sidecar
	if len(s.GetIngress()) > 0 {
		declared = fromIngress(s.Ingress, in.view)
	}
	var out []inboundPort
	seen := map[uint16]bool{}
	for _, p := range declared {
		if seen[p.bind.Port()] || p.own && p.loops() || in.agents(p.target) {
			continue
		}
		if p.pool == nil && s != nil {
			p.pool = s.InboundConnectionPool
		}
		seen[p.bind.Port()] = true
		if p.guard = in.view.guardOf(in.peer.Mode(p.port()), p.tls); p.guard.inspects() {
			p.socket, p.tls = in.view.peerSocket(in.mesh), nil
		}
		out = append(out, p)
	}
	return out
}

// agents reports whether a port leads to the proxy's own agent, and not to the workload.
func (in InboundInputs) agents(target *corev3.Address) bool {
	if p := target.GetPipe(); p != nil {
		return model.AgentSocket(p.GetPath())
	}
	s := target.GetSocketAddress()
	return s != nil && in.mesh.AgentPort(s.GetPortValue(), in.view.Own)
}

// loops reports whether the listener would forward to itself. A listener on 0.0.0.0 also receives connections to
// loopback.
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
		own := entry.CaptureMode == networking.CaptureMode_NONE ||
			v.Mode == node.None && entry.CaptureMode == networking.CaptureMode_DEFAULT
		target, found := workloadAddress(entry.GetDefaultEndpoint(), v.IP, bind)
		if !ok || !found {
			continue
		}
		if entry.GetDefaultEndpoint() == "" && !own {
			target = nil // what was captured goes where it was sent
		}
		protocol, known := model.ParseProtocol(entry.GetPort().GetProtocol())
		switch {
		case known:
		case entry.GetPort().GetProtocol() != "":
			protocol = model.TCP
		case entry.Tls != nil:
			protocol = model.TLS // without detection of plain text: the port requires TLS
		}
		out = append(out, inboundPort{bind: bind, protocol: protocol, target: target, own: own, tls: entry.Tls, identity: v.Identity, pool: entry.ConnectionPool})
	}
	return out
}

func fromServices(services []*model.Service, v Inbound) []inboundPort {
	var out []inboundPort
	for _, s := range services {
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

// workloadAddress parses a defaultEndpoint in Istio's forms: 127.0.0.1:PORT and [::1]:PORT for loopback, 0.0.0.0:PORT
// and [::]:PORT for the proxy's own address, unix:///path; empty for the same port on loopback, where a port is the proxy's own.
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

// addrPort parses address, or fallback if it is empty.
func addrPort(address, fallback string, port uint32) (netip.AddrPort, bool) {
	if address == "" {
		address = fallback
	}
	ip, err := netip.ParseAddr(address)
	return netip.AddrPortFrom(ip, uint16(port)), err == nil && port > 0 && port <= 65535
}

// The names of the filter chains for ports that nobody declares.
const (
	undeclaredHTTPChain = "virtualInbound-catchall-http"
	undeclaredTCPChain  = "virtualInbound-catchall-tcp"
)

// virtualInbound returns the listener of all intercepted connections, with filter chains for each destination port. Ports that
// no service declares are forwarded to the workload as well, HTTP as HTTP.
func (in InboundInputs) virtualInbound(seen observed, ports []inboundPort) *listenerv3.Listener {
	v := in.view
	anywhere := v.family().wildcard()
	port := in.mesh.InboundPort()
	l := &listenerv3.Listener{
		Name: model.VirtualInbound, Address: socket(anywhere, port), AdditionalAddresses: v.family().further(port),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters:  []*listenerv3.ListenerFilter{originalDestination()},
		// A connection to the listener's own address would be forwarded to the listener again.
		FilterChains: []*listenerv3.FilterChain{{
			Name:             "virtualInbound-blackhole",
			FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)},
			Filters:          []*listenerv3.Filter{seen.tcpTo(blackHoleCluster)},
		}},
	}
	if v.Mode == node.TProxy {
		l.Transparent = wrapperspb.Bool(true)
		l.ListenerFilters = append(l.ListenerFilters, originalSource())
	}
	unguarded := in.undeclared(seen, l, ports)
	known := []uint32{port}
	for _, p := range ports {
		if p.port() == port {
			continue
		}
		if p.protocol != model.Unknown || p.guard == guardClosed {
			known = append(known, p.port())
		}
		if !p.guard.inspects() {
			unguarded = append(unguarded, p.port())
		}
		addChains(l, p.name(), p.port(), p.chains(seen, "inbound_"+listenerName(anywhere, p.port()), in.mesh))
	}
	if in.inspects(ports) {
		inspector := tlsInspector()
		inspector.FilterDisabled = anyPortOf(append([]uint32{port}, unguarded...))
		l.ListenerFilters = append(l.ListenerFilters, inspector)
	}
	sniff(l, in.mesh, known...)
	return l
}

// addChains adds chains for a destination port, for all of them if it is 0.
func addChains(l *listenerv3.Listener, name string, port uint32, chains []*listenerv3.FilterChain) {
	for _, c := range chains {
		c.Name = name
		if c.FilterChainMatch == nil {
			c.FilterChainMatch = &listenerv3.FilterChainMatch{}
		}
		if port != 0 {
			c.FilterChainMatch.DestinationPort = wrapperspb.UInt32(port)
		}
		l.FilterChains = append(l.FilterChains, c)
	}
}

// guarded reports whether a policy, or mutual TLS, concerns a port of the workload. The listener has no default chain then:
// Envoy takes the default for whatever no chain of a port matches.
func (in InboundInputs) guarded(ports []inboundPort) bool {
	return in.view.guardOf(in.peer.Mode(0), nil) != guardNone ||
		slices.ContainsFunc(in.peer.Ports(), func(n uint32) bool { return in.view.guardOf(in.peer.Mode(n), nil) != guardNone }) ||
		slices.ContainsFunc(ports, func(p inboundPort) bool { return p.guard != guardNone })
}

// inspects reports whether TLS must be detected at a port.
func (in InboundInputs) inspects(ports []inboundPort) bool {
	return in.view.guardOf(in.peer.Mode(0), nil).inspects() ||
		slices.ContainsFunc(in.peer.Ports(), func(n uint32) bool { return in.view.guardOf(in.peer.Mode(n), nil).inspects() }) ||
		slices.ContainsFunc(ports, func(p inboundPort) bool { return p.guard.inspects() })
}

// undeclared adds the chains for ports that nobody declares: for those with a level of their own in the policy, and for all
// others. It returns the former of which no TLS is detected.
func (in InboundInputs) undeclared(seen observed, l *listenerv3.Listener, ports []inboundPort) (unguarded []uint32) {
	to := entrance{
		protocol: model.Unknown, detected: seen.detected(), tcp: seen.tcpTo(inboundPassthroughCluster),
		http: func(mutual bool) *listenerv3.Filter { return undeclaredHTTP(seen, mutual) },
	}
	if !in.guarded(ports) {
		c := seen.httpChain(to.http(false))
		c.Name = undeclaredHTTPChain
		l.FilterChains = append(l.FilterChains, c)
		l.DefaultFilterChain = &listenerv3.FilterChain{Name: undeclaredTCPChain, Filters: []*listenerv3.Filter{to.tcp}}
		return nil
	}
	if in.inspects(ports) {
		to.socket = in.view.peerSocket(in.mesh)
	}
	for _, n := range append([]uint32{0}, in.peer.Ports()...) {
		if n == in.mesh.InboundPort() || slices.ContainsFunc(ports, func(p inboundPort) bool { return p.port() == n }) {
			continue
		}
		switch g := in.view.guardOf(in.peer.Mode(n), nil); {
		case g == guardClosed:
			addChains(l, undeclaredTCPChain, n, []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{seen.tcpTo(blackHoleCluster)}}})
		default:
			for _, c := range to.chains(g) {
				name := undeclaredTCPChain
				if c.Filters[0].Name == hcmFilter {
					name = undeclaredHTTPChain
				}
				addChains(l, name, n, []*listenerv3.FilterChain{c})
			}
			if n != 0 && !g.inspects() {
				unguarded = append(unguarded, n)
			}
		}
	}
	return unguarded
}

// undeclaredHTTP returns the filter for HTTP to ports that nobody declares.
func undeclaredHTTP(seen observed, mutual bool) *listenerv3.Filter {
	manager := seen.newHCM(inboundPassthroughCluster, corev3.TrafficDirection_INBOUND)
	if mutual {
		namesClient(manager)
	}
	manager.RouteSpecifier = inlined(inboundPassthroughCluster, toCluster("default", inboundPassthroughCluster))
	return networkFilter(hcmFilter, manager)
}

// namesClient makes a connection manager tell the workload who the client is, in x-forwarded-client-cert.
func namesClient(m *hcmv3.HttpConnectionManager) {
	m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
		Subject: wrapperspb.Bool(true), Uri: true, Dns: true,
	}
}
