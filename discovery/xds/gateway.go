package xds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	sniclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_cluster/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// gatewayServer is one server of a Gateway that the proxy serves.
type gatewayServer struct {
	gateway *model.Config[*networking.Gateway]
	bind    string // "" for every address
	opens   uint32 // the port of the listener: the server's own, or the one to which a Service leads from there
	*networking.Server
}

func (s gatewayServer) key() string { return s.gateway.Namespace + "/" + s.gateway.Name }

func (s gatewayServer) protocol() model.Protocol {
	p, _ := model.ParseProtocol(s.Port.GetProtocol())
	return p
}

// ends reports whether the gateway terminates TLS.
func (s gatewayServer) ends() bool {
	return model.EndsTLS(s.Tls)
}

// http reports whether HTTP routes can match requests to the server.
func (s gatewayServer) http() bool {
	return s.protocol().IsHTTP() || s.protocol() == model.HTTPS && s.ends()
}

// plain reports whether the server accepts unencrypted HTTP. Its tls may still configure a redirect to HTTPS.
func (s gatewayServer) plain() bool { return s.protocol().IsHTTP() }

// redirects reports whether the server redirects plain HTTP to HTTPS.
func (s gatewayServer) redirects() bool { return s.plain() && s.Tls.GetHttpsRedirect() }

// routeName returns the name of a server's route configuration. Plain HTTP servers of one port and bind share one.
func (s gatewayServer) routeName() string {
	if s.plain() && s.bind != "" {
		return fmt.Sprintf("http.%d.%s", s.opens, s.bind)
	}
	if s.plain() {
		return fmt.Sprintf("http.%d", s.opens)
	}
	return fmt.Sprintf("https.%d.%s.%s.%s", s.Port.Number, s.Port.Name, s.gateway.Name, s.gateway.Namespace)
}

// servers returns the servers of the Gateways that select the proxy by the names of their listeners, and these in their order.
func (b *builder) servers() (servers map[string][]gatewayServer, order []string) {
	servers = map[string][]gatewayServer{}
	binds := model.Binds{Namespace: b.view.Namespace}
	leads := b.mesh.GatewayPorts(b.view.Namespace, b.view.Labels())
	for _, g := range b.mesh.GatewaysAt(b.view.Namespace, b.view.Labels()) {
		for _, s := range g.Spec.Servers {
			if refused, _ := binds.Refused(g.Meta, s); refused != "" {
				continue
			}
			if s.GetPort().GetNumber() == 0 && !strings.HasPrefix(s.GetBind(), "unix://") {
				continue
			}
			bind := canonical(s.Bind)
			if bind == b.view.Family.wildcard() {
				bind = ""
			}
			opens := cmp.Or(leads[s.Port.GetNumber()], s.Port.GetNumber())
			key := fmt.Sprintf("%s_%d", cmp.Or(bind, b.view.Family.wildcard()), opens)
			if len(servers[key]) == 0 {
				order = append(order, key)
			}
			servers[key] = append(servers[key], gatewayServer{g, bind, opens, s})
		}
	}
	for key, all := range servers {
		// On one port all servers are plain HTTP, or none is: the first server decides, see model.GatewaysAt.
		plain := all[0].plain()
		servers[key] = slices.DeleteFunc(all, func(s gatewayServer) bool { return s.plain() != plain })
	}
	return servers, order
}

// gateways adds a listener for each bind and port of the Gateways that select the proxy, and their routes.
func (b *builder) gateways() {
	servers, order := b.servers()
	for _, key := range order {
		all := servers[key]
		b.out.Listeners = append(b.out.Listeners, b.gatewayListener(key, all))
		byTable := map[string][]gatewayServer{}
		for _, s := range all {
			b.out.passes = b.out.passes || s.Tls.GetMode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH
			byTable[s.routeName()] = append(byTable[s.routeName()], s)
		}
		owners := ownersOf(all)
		for _, s := range all {
			if name := s.routeName(); s.http() && byTable[name] != nil {
				b.gatewayRoutes(name, byTable[name], owners)
				byTable[name] = nil
			}
		}
	}
	if b.out.passes {
		b.sniClusters()
	}
}

func (b *builder) gatewayListener(name string, servers []gatewayServer) *listenerv3.Listener {
	first := servers[0]
	address := socket(cmp.Or(first.bind, b.view.Family.wildcard()), first.opens)
	if path, ok := isUnix(first.Bind); ok {
		address = pipe(path)
	}
	var further []*listenerv3.AdditionalAddress
	if first.Bind == "" {
		further = b.view.Family.further(first.opens)
	}
	l := &listenerv3.Listener{
		AdditionalAddresses: further,
		Name:                name, Address: address, TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		ListenerFilters: b.view.Topology.in(b.mesh.Settings()).filters(),
	}
	if first.plain() {
		l.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{b.gatewayHCM(first, name)}}}
		return l
	}
	for _, s := range servers {
		l.FilterChains = append(l.FilterChains, b.gatewayChains(s, name)...)
	}
	l.FilterChains = uniqueChains(l.FilterChains)
	if len(l.FilterChains) == 0 { // no rule routes connections of these servers
		l.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{b.seen.tcpTo(blackHoleCluster)}}}
	}
	if slices.ContainsFunc(l.FilterChains, func(c *listenerv3.FilterChain) bool {
		return c.GetFilterChainMatch().GetTransportProtocol() == "tls" ||
			len(c.GetFilterChainMatch().GetServerNames()) > 0
	}) {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector())
	}
	b.seen.addRefused(l)
	return l
}

// gatewayHCM returns the HTTP connection manager for requests to a gateway's server.
func (b *builder) gatewayHCM(s gatewayServer, name string) *listenerv3.Filter {
	m := b.seen.newHCM("outbound_"+name, corev3.TrafficDirection_OUTBOUND)
	b.view.Topology.in(b.mesh.Settings()).applyTo(m)
	m.RouteSpecifier = fetched(s.routeName())
	return networkFilter(hcmFilter, m)
}

// gatewayChains returns the filter chains of a server that does not accept plain HTTP.
func (b *builder) gatewayChains(s gatewayServer, name string) []*listenerv3.FilterChain {
	hosts := model.ServerHosts(s.Server)
	switch {
	case s.http():
		c := sniChain(hosts, nil, b.gatewayHCM(s, name))
		terminate(c, serverTLS(s.tls(), b.scope.Settings(), b.view.Identity, []string{"h2", "http/1.1"}))
		return []*listenerv3.FilterChain{c}
	case s.Tls.GetMode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		c := sniChain(hosts, nil, networkFilter("envoy.filters.network.sni_cluster", &sniclusterv3.SniCluster{}))
		c.Filters = append(c.Filters, b.seen.tcpTo(blackHoleCluster))
		return []*listenerv3.FilterChain{c}
	}
	var out []*listenerv3.FilterChain
	r := router{scope: b.scope, gateway: s.key(), port: s.Port.Number, encrypted: s.ends()}
	for _, rule := range b.rulesOf(s.gateway).near(s) {
		if len(crossing(s, rule)) == 0 {
			continue
		}
		switch {
		case s.ends(): // TLS is terminated, and the content is forwarded as TCP
			for _, c := range r.tcpOnly(b.seen, rule.Spec) {
				c.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: "tls", ServerNames: notAny(hosts)}
				terminate(c, serverTLS(s.tls(), b.scope.Settings(), b.view.Identity, nil))
				out = append(out, c)
			}
		case s.protocol().IsTLS():
			out = append(out, r.sniChains(b.seen, rule.Spec)...)
		default:
			out = append(out, r.tcpOnly(b.seen, rule.Spec)...)
		}
	}
	return out
}

// tcpOnly returns the filter chains of a rule's TCP routes that apply here.
func (r router) tcpOnly(o observed, rule *networking.VirtualService) []*listenerv3.FilterChain {
	var out []*listenerv3.FilterChain
	for _, route := range rule.Tcp {
		applies := len(route.Match) == 0 ||
			slices.ContainsFunc(route.Match, func(m *networking.L4MatchAttributes) bool { return r.applies(m) })
		if applies {
			out = append(out, &listenerv3.FilterChain{Filters: []*listenerv3.Filter{r.tcpRoute(o, route.Route)}})
		}
	}
	return out
}

func notAny(hosts []string) []string {
	if slices.Contains(hosts, "*") {
		return nil
	}
	return hosts
}

// crossing returns the hosts that both a server and a rule contain: of each matching pair the narrower host.
func crossing(s gatewayServer, rule *model.Config[*networking.VirtualService]) []string {
	var out []string
	for _, entry := range s.Hosts {
		host := entry
		if namespace, rest, found := strings.Cut(entry, "/"); found {
			if namespace != "*" && namespace != rule.Namespace &&
				(namespace != "." || rule.Namespace != s.gateway.Namespace) {
				continue
			}
			host = rest
		}
		host = strings.ToLower(host)
		for _, own := range rule.Spec.Hosts {
			switch {
			case model.HostMatches(host, own):
				out = append(out, own)
			case model.HostMatches(own, host):
				out = append(out, host)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// gatewayRules are the VirtualServices of a Gateway, in the order in which their routes are tried.
type gatewayRules struct {
	all       []*model.Config[*networking.VirtualService]
	exact     map[string][]int // places in all, by host
	wildcards []int            // places in all of those with a wildcard host
}

// rulesOf returns the rules of a Gateway, which may have thousands of servers that each ask for them.
func (b *builder) rulesOf(g *model.Config[*networking.Gateway]) gatewayRules {
	key := g.Namespace + "/" + g.Name
	if r, known := b.gatewayRules[key]; known {
		return r
	}
	r := gatewayRules{all: b.mesh.GatewayRules(g, b.view.Namespace), exact: map[string][]int{}}
	for i, rule := range r.all {
		for _, host := range rule.Spec.Hosts {
			if model.IsWildcard(host) {
				r.wildcards = append(r.wildcards, i)
			} else {
				r.exact[host] = append(r.exact[host], i)
			}
		}
	}
	if b.gatewayRules == nil {
		b.gatewayRules = map[string]gatewayRules{}
	}
	b.gatewayRules[key] = r
	return r
}

// near returns the rules that may have a host of a server: without the others, there is less to compare.
func (r gatewayRules) near(s gatewayServer) (out []*model.Config[*networking.VirtualService]) {
	hosts := model.ServerHosts(s.Server)
	if slices.ContainsFunc(hosts, model.IsWildcard) {
		return r.all
	}
	places := slices.Clone(r.wildcards)
	for _, host := range hosts {
		places = append(places, r.exact[host]...)
	}
	slices.Sort(places)
	for _, i := range slices.Compact(places) {
		out = append(out, r.all[i])
	}
	return out
}

// answering are the Gateways without a redirection to HTTPS that have a host: they name it, or have routes for it.
type answering map[string][]*model.Config[*networking.Gateway]

func (b *builder) answering(servers []gatewayServer) answering {
	out := answering{}
	for _, s := range servers {
		if s.redirects() {
			continue
		}
		hosts := model.ServerHosts(s.Server)
		for _, rule := range b.rulesOf(s.gateway).near(s) {
			if len(rule.Spec.Http) > 0 {
				hosts = append(hosts, crossing(s, rule)...)
			}
		}
		for _, host := range hosts {
			if all := out[host]; len(all) < 2 && !slices.Contains(all, s.gateway) { // of two, one is not the asker's
				out[host] = append(all, s.gateway)
			}
		}
	}
	return out
}

// have reports whether a Gateway other than that of a server answers a host. A redirection of the host as a whole would take its requests.
func (a answering) have(host string, than gatewayServer) bool {
	return slices.ContainsFunc(a[host], func(g *model.Config[*networking.Gateway]) bool { return g != than.gateway })
}

// toHTTPS returns routes that redirect what the given ones match, as require_tls does.
func toHTTPS(routes []*routev3.Route) []*routev3.Route {
	out := make([]*routev3.Route, len(routes))
	for i, r := range routes {
		out[i] = &routev3.Route{Name: r.Name, Match: r.Match, Action: &routev3.Route_Redirect{Redirect: &routev3.RedirectAction{
			SchemeRewriteSpecifier: &routev3.RedirectAction_HttpsRedirect{HttpsRedirect: true},
		}}}
	}
	return out
}

// gatewayRoutes adds the route configuration that servers share. If several rules have one host, the routes of all are
// used, in the order of GatewayRules, but a route that matches every request is placed last. owners are those of the listener.
func (b *builder) gatewayRoutes(name string, servers []gatewayServer, owners owners) {
	if slices.ContainsFunc(b.out.Routes, func(r *routev3.RouteConfiguration) bool { return r.Name == name }) {
		return
	}
	out := newRouteConfig(name)
	hosts := map[string]*routev3.VirtualHost{}
	host := func(domain string, port uint32) *routev3.VirtualHost {
		if hosts[domain] == nil {
			hosts[domain] = virtualHost(fmt.Sprintf("%s:%d", domain, port), []string{asDomain(domain)})
			out.VirtualHosts = append(out.VirtualHosts, hosts[domain])
		}
		return hosts[domain]
	}
	var others answering
	if slices.ContainsFunc(servers, gatewayServer.redirects) {
		others = b.answering(servers)
	}
	for _, s := range servers {
		redirect := s.redirects()
		if redirect {
			for _, h := range model.ServerHosts(s.Server) {
				if !others.have(h, s) {
					host(h, s.Port.Number).RequireTls = routev3.VirtualHost_ALL
				}
			}
		}
		r := router{scope: b.scope, gateway: s.key(), port: s.Port.Number, encrypted: s.ends()}
		for _, rule := range b.rulesOf(s.gateway).near(s) {
			if len(rule.Spec.Http) == 0 {
				continue
			}
			domains := crossing(s, rule)
			if len(domains) == 0 {
				continue
			}
			routes := r.routes(rule.Spec)
			if len(routes) == 0 {
				continue // no route is for this port
			}
			for _, domain := range domains {
				if owners.misdirects(s, domain) {
					continue
				}
				h := host(domain, s.Port.Number)
				switch {
				case redirect && others.have(domain, s):
					h.Routes = append(h.Routes, toHTTPS(routes)...)
				case redirect:
					h.RequireTls = routev3.VirtualHost_ALL
					fallthrough
				default:
					h.Routes = append(h.Routes, routes...)
				}
			}
		}
		for _, domain := range owners.misdirected(s) {
			host(domain, s.Port.Number).Routes = []*routev3.Route{misdirectedRequest()}
		}
	}
	for _, h := range out.VirtualHosts {
		h.Routes = catchAllLast(h.Routes)
	}
	answerQuestions(out, servers, b.mesh.Questions(b.view.Namespace))
	b.out.Routes = append(b.out.Routes, out)
}

// sniClusters adds a copy of every cluster under the server name (SNI) by which AUTO_PASSTHROUGH selects it.
func (b *builder) sniClusters() {
	view := b.view.ofClusters()
	for _, s := range b.scope.Services() {
		inputs := inputsOf(b.mesh, s, b.scope.DestinationRule(s), &view, b.view.sameIn(b.mesh, s))
		b.out.add(model.Recall(b.out.memory, "sni "+s.Host, inputs, clusterInputs.sniClusters))
	}
}

// sniClusters returns the copies of a service's clusters.
func (in clusterInputs) sniClusters() *Resources {
	out := &Resources{}
	for _, p := range in.service.Ports {
		for _, subset := range append([]*networking.Subset{nil}, in.rule.GetSubsets()...) {
			if p.Protocol == model.UDP {
				continue
			}
			t := target{service: in.service, port: p, subset: subset, view: *in.view, mesh: in.mesh, entered: true, same: in.same}
			t.policy = policyOf(in.rule, subset, p.Number, t.mesh)
			t.policy.tls, t.port.Protocol = nil, model.TCP // the forwarded bytes are encrypted already
			c, endpoints := t.cluster()
			c.Name = model.ServerName(p.Number, subset.GetName(), in.service.Host)
			if endpoints != nil {
				c.EdsClusterConfig.ServiceName = c.Name
				endpoints.ClusterName = c.Name
				out.Endpoints = append(out.Endpoints, endpoints)
			}
			out.Clusters = append(out.Clusters, c)
		}
	}
	return out
}
