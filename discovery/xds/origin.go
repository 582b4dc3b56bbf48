package xds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Origins tells which objects made the parts of a proxy's outbound resources. Nothing is kept for it: it reads, when it is asked,
// what translation keeps so as to reuse it, and the mesh that the resources were made of.
type Origins struct {
	mesh *model.Mesh
	view Outbound
	made *Resources
}

// OriginsOf returns the origins of r, which was made of a mesh for view v.
func OriginsOf(m *model.Mesh, v Outbound, r *Resources) Origins { return Origins{m, v, r} }

// Host returns what made a virtual host: its service, and its VirtualService; of the one for unknown hosts, what decides about these.
func (o Origins) Host(config, name string) (made Made) {
	if o.view.Gateway {
		return o.gatewayHost(config, name)
	}
	h, _, ok := o.find(config, name)
	if !ok && (name == allowAny || name == blockAll) {
		return o.Unknown()
	}
	if h.rule != nil {
		made.By = append(made.By, model.Place{Meta: h.rule.Meta})
	}
	if h.service != nil {
		made.By = append(made.By, model.Place{Meta: o.mesh.DeclaredBy(h.service)})
	}
	return made
}

// Routes returns what made the routes of a virtual host, by their index: the HTTP route of a VirtualService, or the service.
func (o Origins) Routes(config, name string) func(index int) []model.Place {
	if o.view.Gateway {
		return o.gatewayRoutes(config, name)
	}
	h, served, ok := o.find(config, name)
	if !ok {
		by := o.Host(config, name).By
		return func(int) []model.Place { return by }
	}
	var made []madeRoute
	if h.rule != nil {
		made = routesOf(router{scope: o.made.scope, gateway: model.MeshGateway, port: h.port}, o.mesh, h.rule)
	}
	return func(index int) []model.Place {
		switch {
		case len(made) == len(served.Routes) && index < len(made):
			return []model.Place{made[index].place}
		case len(made) > 0: // of another generation
		case h.service != nil:
			return []model.Place{{Meta: o.mesh.DeclaredBy(h.service)}}
		}
		return nil
	}
}

// gatewayRoutes returns the first routes of the gateway's rules that are equal to those of a virtual host, because its routes
// are those of several rules.
func (o Origins) gatewayRoutes(config, name string) func(index int) []model.Place {
	var served []*routev3.Route
	for _, c := range o.made.Routes {
		for _, h := range c.VirtualHosts {
			if c.Name == config && h.Name == name {
				served = h.Routes
			}
		}
	}
	var made []madeRoute
	servers, order := (&builder{mesh: o.mesh, view: o.view}).servers()
	for _, key := range order {
		for _, s := range servers[key] {
			if !s.http() || s.routeName() != config {
				continue
			}
			r := router{scope: o.made.scope, gateway: s.key(), port: s.Port.Number, encrypted: s.ends()}
			for _, rule := range o.mesh.GatewayRules(s.gateway, o.view.Namespace) {
				made = append(made, routesOf(r, o.mesh, rule)...)
			}
		}
	}
	return func(index int) []model.Place {
		for _, m := range made {
			if index < len(served) && proto.Equal(m.route, served[index]) {
				return []model.Place{m.place}
			}
		}
		return nil
	}
}

// Cluster returns what made a cluster: the service, and the DestinationRules of its policy.
func (o Origins) Cluster(name string) Made {
	s := serviceNamed(o.made.scope, name)
	switch {
	case s != nil:
		return Made{By: append([]model.Place{{Meta: o.mesh.DeclaredBy(s)}}, o.made.scope.PolicyPlaces(s)...)}
	case name == passthroughCluster, name == blackHoleCluster:
		return Made{Unmade: forEachSidecar}
	}
	return Made{}
}

// TLS returns what chose how a cluster begins connections; nil if its endpoints do.
func (o Origins) TLS(cluster string) []model.Place {
	s := serviceNamed(o.made.scope, cluster)
	if s == nil {
		return nil
	}
	parts := clusterParts(cluster)
	port, _ := strconv.ParseUint(parts[1], 10, 32) // a service has the cluster
	return o.made.scope.TLSPlaces(s, uint32(port), parts[2])
}

// Endpoint returns what declares the address of an endpoint of a cluster.
func (o Origins) Endpoint(cluster, address string) []model.Place {
	s := serviceNamed(o.made.scope, cluster)
	if s == nil {
		return nil
	}
	return o.mesh.EndpointPlaces(s, address)
}

// serviceNamed returns the service of a cluster, by the cluster's name; nil if it has none.
func serviceNamed(scope *model.Scope, cluster string) *model.Service {
	parts := clusterParts(cluster)
	if len(parts) != 4 || parts[0] != "outbound" || scope == nil {
		return nil
	}
	return scope.Service(parts[3])
}

// clusterParts splits the name of a cluster, or the server name that is one, into "outbound", port, subset and host.
func clusterParts(name string) []string {
	if strings.HasPrefix(name, "outbound_.") {
		return strings.SplitN(name, "_.", 4)
	}
	return strings.SplitN(name, "|", 4)
}

// find returns a virtual host with the inputs that it was made of.
func (o Origins) find(config, name string) (routedHost, *routev3.VirtualHost, bool) {
	for _, t := range o.made.tables {
		if t.config.Name != config {
			continue
		}
		for i, h := range t.hosts {
			if t.config.VirtualHosts[i].Name == name {
				return h, t.config.VirtualHosts[i], true
			}
		}
	}
	return routedHost{}, nil, false
}

// madeRoute is a route that a router makes of a rule, and its place there.
type madeRoute struct {
	route *routev3.Route
	place model.Place
}

func routesOf(r router, m *model.Mesh, rule *model.Config[*networking.VirtualService]) (out []madeRoute) {
	declared := m.RoutePlaces(rule)
	for at, route := range r.each(rule.Spec) {
		p := model.Place{Meta: rule.Meta}
		if at.http < len(declared) {
			p = declared[at.http]
			if at.match >= 0 && p.Meta.Key() == rule.Key() { // a delegate's matches are joined with those of its root
				p.Path += fmt.Sprintf(".match[%d]", at.match)
			}
		}
		out = append(out, madeRoute{route, p})
	}
	return out
}

// Why no object made a part.
const (
	forEachProxy   = "each proxy that intercepts has it"
	forHTTPProxy   = "the metadata HTTP_PROXY_PORT of the proxy asks for it"
	forDNS         = "the metadata DNS_CAPTURE of the proxy asks for it"
	byDefault      = "neither a Sidecar nor MeshConfig has an outboundTrafficPolicy: unknown hosts are let through"
	againstCircles = "a connection to the proxy's own port would go in a circle"
	forEachSidecar = "each sidecar has it"
	withoutARule   = "no VirtualService leads further"
)

// Made is what made a part.
type Made struct {
	By     []model.Place
	More   int    // services that made it beside those: many share a listener
	Unmade string // why no object did, where none did

	shared int
}

// firstSharers is how many of the services that share a listener are named.
const firstSharers = 3

// add adds what is not there already.
func (made *Made) add(further ...model.Place) {
	for _, p := range further {
		if !slices.ContainsFunc(made.By, func(o model.Place) bool { return o.Meta.Key() == p.Meta.Key() && o.Path == p.Path }) {
			made.By = append(made.By, p)
		}
	}
}

// share adds the first parts of a listener, and counts the others.
func (made *Made) share(m *model.Mesh, p listenedPart) {
	if made.shared++; made.shared > firstSharers {
		made.More++
		return
	}
	made.add(p.place(m))
}

// Listener returns what made a listener: the Gateways' servers, the Sidecar, or the services that are reached at it.
func (o Origins) Listener(name string) (made Made) {
	if o.view.Gateway {
		servers, _ := (&builder{mesh: o.mesh, view: o.view}).servers()
		for _, s := range servers[name] {
			made.add(s.place())
		}
		return made
	}
	if made.Unmade = o.unmade(name); made.Unmade != "" {
		return made
	}
	for _, p := range o.listened(name) {
		made.share(o.mesh, p)
	}
	return made
}

// unmade says why no object made a listener of a sidecar; "" if one did.
func (o Origins) unmade(listener string) string {
	switch {
	case listener == model.VirtualOutbound:
		return forEachProxy
	case o.view.HTTPProxyPort != 0 && listener == listenerName(o.view.Family.loopback(), uint32(o.view.HTTPProxyPort)):
		return forHTTPProxy
	case listener == dnsListener, listener == dnsOverTCP:
		return forDNS
	}
	return ""
}

// place is the server in its Gateway.
func (s gatewayServer) place() model.Place {
	return model.Place{Meta: s.gateway.Meta, Path: fmt.Sprintf("spec.servers[%d]", slices.Index(s.gateway.Spec.Servers, s.Server))}
}

// listenedPart is a listener as one port of a service, or one egress of a Sidecar, makes it alone.
type listenedPart struct {
	*outboundListener
	ls      *outboundListeners
	service *model.Service
	egress  model.Place // "" for a service
	rules   model.Rules
}

func (p listenedPart) place(m *model.Mesh) model.Place {
	if p.service == nil {
		return p.egress
	}
	return model.Place{Meta: m.DeclaredBy(p.service)}
}

// listened returns the parts of a listener, in their order. Each is made again, alone.
func (o Origins) listened(name string) (out []listenedPart) {
	b := newBuilder(nil, nil, o.mesh, o.view)
	sidecar := o.mesh.Sidecar(o.view.Namespace, o.view.Labels())
	add := func(ls *outboundListeners, p listenedPart) {
		if l := ls.all[name]; l != nil {
			p.outboundListener, p.ls = l, ls
			out = append(out, p)
		}
	}
	fresh := func() *outboundListeners {
		return &outboundListeners{view: b.view, mesh: b.mesh, scope: b.scope, seen: b.seen, all: map[string]*outboundListener{}}
	}
	for i, e := range b.scope.Egress() {
		if e.Listener.GetPort() != nil {
			ls := fresh()
			b.declared(ls, &routeSet{b: b}, e, i)
			add(ls, listenedPart{egress: model.Place{Meta: sidecar.Meta, Path: fmt.Sprintf("spec.egress[%d]", i)}, rules: e.Rules})
			continue
		}
		for _, s := range e.Services {
			for _, p := range s.Ports {
				if p.Protocol == model.UDP {
					continue
				}
				ls := fresh()
				ls.addService(e, s, p)
				add(ls, listenedPart{service: s, rules: e.Rules})
			}
		}
	}
	return out
}

// Chain returns what made a filter chain of a listener: for HTTP the services, or servers, that have HTTP there; else the service and the route of a
// VirtualService to which it leads; or what decides about unknown destinations.
func (o Origins) Chain(listener string, chain *listenerv3.FilterChain) (made Made) {
	if len(chain.GetFilters()) == 0 {
		return made
	}
	last := chain.Filters[len(chain.Filters)-1] // those before are of policies
	if o.view.Gateway {
		return o.gatewayChain(listener, chain, last)
	}
	if why := o.unmade(listener); why != "" && why != forEachProxy {
		return Made{Unmade: why}
	}
	if chain.Name == "virtualOutbound-blackhole" {
		return Made{Unmade: againstCircles}
	}
	for _, p := range o.listened(listener) {
		if last.Name == hcmFilter && p.http != "" {
			made.share(o.mesh, p)
		}
		for _, part := range p.parts {
			if last.Name != hcmFilter && part.makes(p.ls, last) {
				made.add(append(p.routePlaces(part, last), p.place(o.mesh))...)
				return made
			}
		}
	}
	if b := newBuilder(nil, nil, o.mesh, o.view); len(made.By) == 0 && proto.Equal(b.seen.tcpTo(unknownCluster(b.scope)), last) {
		return o.Unknown()
	}
	return made
}

// makes reports whether a part of a listener makes a filter.
func (part servicePart) makes(ls *outboundListeners, filter *listenerv3.Filter) bool {
	alone := &outboundListener{}
	part.translate(ls, alone)
	return proto.Equal(alone.fallback, filter) ||
		slices.ContainsFunc(alone.chains, func(c *listenerv3.FilterChain) bool { return proto.Equal(c.Filters[len(c.Filters)-1], filter) })
}

// routePlaces returns the route of the rule of a part that makes a filter; nil if none does.
func (p listenedPart) routePlaces(part servicePart, filter *listenerv3.Filter) []model.Place {
	rule := p.rules.For(part.service.Host)
	if rule == nil || part.rule == nil {
		return nil
	}
	return router{scope: p.ls.scope, gateway: model.MeshGateway, port: part.port}.connectionPlaces(p.ls.seen, rule, filter)
}

// connectionPlaces returns the first route of a rule for connections that makes a filter.
func (r router) connectionPlaces(seen observed, rule *model.Config[*networking.VirtualService], filter *listenerv3.Filter) []model.Place {
	for i, route := range rule.Spec.Tls {
		if proto.Equal(r.tcpRoute(seen, route.Route), filter) {
			return []model.Place{{Meta: rule.Meta, Path: fmt.Sprintf("spec.tls[%d]", i)}}
		}
	}
	for i, route := range rule.Spec.Tcp {
		if proto.Equal(r.tcpRoute(seen, route.Route), filter) {
			return []model.Place{{Meta: rule.Meta, Path: fmt.Sprintf("spec.tcp[%d]", i)}}
		}
	}
	return nil
}

func (o Origins) gatewayChain(listener string, chain *listenerv3.FilterChain, last *listenerv3.Filter) (made Made) {
	b := newBuilder(nil, nil, o.mesh, o.view)
	servers, _ := b.servers()
	names := chain.GetFilterChainMatch().GetServerNames()
	for _, s := range servers[listener] {
		hosts := notAny(model.ServerHosts(s.Server))
		takes := s.plain() || len(names) == 0 && len(hosts) == 0 || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(hosts, n) })
		switch passes := s.Tls.GetMode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH; {
		case s.http():
			if last.Name == hcmFilter && takes {
				made.add(s.place())
			}
		case passes:
			if takes {
				made.add(s.place())
			}
		default:
			if led := o.led(s, b, last); len(led) > 0 {
				made.add(append(led, s.place())...)
				return made
			}
		}
	}
	if len(made.By) == 0 {
		made.Unmade = withoutARule
	}
	return made
}

// led returns the route of a VirtualService by which connections to a server get to a filter.
func (o Origins) led(s gatewayServer, b *builder, filter *listenerv3.Filter) []model.Place {
	r := router{scope: b.scope, gateway: s.key(), port: s.Port.Number, encrypted: s.ends()}
	for _, rule := range o.mesh.GatewayRules(s.gateway, o.view.Namespace) {
		if places := r.connectionPlaces(b.seen, rule, filter); len(places) > 0 && len(crossing(s, rule)) > 0 {
			return places
		}
	}
	return nil
}

// Unknown returns what decides about hosts and addresses that are of no service: a Sidecar, or MeshConfig.
func (o Origins) Unknown() Made {
	if made := o.mesh.OutboundPlaces(o.view.Namespace, o.view.Labels()); len(made) > 0 {
		return Made{By: made}
	}
	return Made{Unmade: byDefault}
}

// gatewayHost returns what made a virtual host of a gateway: the VirtualServices with the host, and the servers that have it.
func (o Origins) gatewayHost(config, name string) Made {
	servers, order := (&builder{mesh: o.mesh, view: o.view}).servers()
	var rules, at Made
	for _, key := range order {
		owners := ownersOf(servers[key])
		for _, s := range servers[key] {
			if !s.http() || s.routeName() != config {
				continue
			}
			is := func(domain string) bool { return fmt.Sprintf("%s:%d", domain, s.Port.Number) == name }
			misdirected := owners.misdirected(s)
			if i := slices.IndexFunc(misdirected, is); i >= 0 {
				owner, _ := owners.of(misdirected[i])
				at.add(owner.place())
				continue
			}
			for _, rule := range o.mesh.GatewayRules(s.gateway, o.view.Namespace) {
				if len(rule.Spec.Http) > 0 && slices.ContainsFunc(crossing(s, rule), is) {
					rules.add(model.Place{Meta: rule.Meta})
					at.add(s.place())
				}
			}
			if s.Tls.GetHttpsRedirect() && slices.ContainsFunc(model.ServerHosts(s.Server), is) {
				at.add(s.place())
			}
		}
	}
	rules.add(at.By...)
	return rules
}

// Name returns what made the address of a name that DNS of the proxy has: the service.
func (o Origins) Name(host string) []model.Place {
	if o.made.scope == nil {
		return nil
	}
	s := o.made.scope.Service(host)
	if _, parent, found := strings.Cut(host, "."); s == nil && found {
		s = o.made.scope.Service(parent) // a Pod of a headless service
	}
	if s == nil {
		return nil
	}
	return []model.Place{{Meta: o.mesh.DeclaredBy(s)}}
}

// InboundOrigins tells which objects made the parts of the resources for traffic to a workload. Nothing is kept for it.
type InboundOrigins struct {
	mesh *model.Mesh
	view Inbound
}

// InboundOriginsOf returns the origins of what BuildInbound makes of a mesh for view v.
func InboundOriginsOf(m *model.Mesh, v Inbound) InboundOrigins { return InboundOrigins{m, v} }

// Port returns what decides which connections a port takes: the PeerAuthentication, then the services with an endpoint there.
func (o InboundOrigins) Port(port uint32) []model.Place {
	out := o.mesh.PeerPlaces(o.view.Namespace, o.view.Labels(), port)
	for _, s := range ownFirst(o.mesh.ServicesAt(o.view.addresses()...), o.view.Namespace) {
		for _, p := range fromServices([]*model.Service{s}, o.view) {
			if p.port() == port {
				out = append(out, model.Place{Meta: o.mesh.DeclaredBy(s)})
				break
			}
		}
	}
	return out
}

// Policy returns the rule of an AuthorizationPolicy that has a name in the filters.
func (o InboundOrigins) Policy(name string) []model.Place { return policyPlaces(o.mesh, name) }

// Policy is that of InboundOrigins, at a gateway.
func (o Origins) Policy(name string) []model.Place { return policyPlaces(o.mesh, name) }

func policyPlaces(m *model.Mesh, name string) []model.Place {
	namespace, policy, rule, ok := authz.ParseRuleName(name)
	if !ok {
		return nil
	}
	return m.RulePlaces(namespace, policy, rule)
}
