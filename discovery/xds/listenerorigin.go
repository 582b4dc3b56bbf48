package xds

import (
	"fmt"
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
