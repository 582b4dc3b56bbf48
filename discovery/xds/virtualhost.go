package xds

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	allowAny     = "allow_any"
	blockAll     = "block_all"
	blockAllBody = "no service of this name and port in the mesh\n"
	maxBody      = 1 << 20 // bytes of a direct response; Envoy's default is 4 kB
)

// routeTable is a route configuration and who its virtual hosts are for, but for the last one, which answers for nobody.
type routeTable struct {
	config *routev3.RouteConfiguration
	hosts  []routedHost
	absent []routedHost // rules that have no route for the port
}

// routedHost is what one virtual host is made of.
type routedHost struct {
	service *model.Service                            // nil for a host that only a rule names
	rule    *model.Config[*networking.VirtualService] // nil for none
	port    uint32
}

func (h routedHost) routes(scope *model.Scope) []*routev3.Route {
	r := router{scope, model.MeshGateway, h.port}
	if h.service == nil {
		return r.routes(h.rule.Spec)
	}
	return r.serviceRoutes(h.service, ruleSpec(h.rule))
}

// routeSet adds route configurations, each name once.
type routeSet struct {
	b    *builder
	seen map[string]bool
}

// add adds what build makes of services under rules, unless all that it is made of is as it was.
func (rs *routeSet) add(name string, services []*model.Service, rules []*model.Config[*networking.VirtualService],
	build func(*routeTable),
) {
	scope := rs.b.scope
	inputs := []any{rs.b.mesh.Settings(), unknownCluster(scope)}
	depends := func(s *model.Service) {
		inputs = append(inputs, s.Host, scope.DestinationRule(s))
		for _, p := range s.Ports {
			inputs = append(inputs, p)
		}
		for _, a := range s.Addresses {
			inputs = append(inputs, a)
		}
	}
	for _, s := range services {
		depends(s)
	}
	for _, rule := range rules {
		inputs = append(inputs, rule)
		for d := range model.Destinations(rule.Spec) {
			if s := scope.Service(d.Host); s != nil {
				depends(s)
			}
		}
	}
	table := model.Recall(rs.b.out.memory, "route "+name, inputs, func() *routeTable {
		t := &routeTable{config: newRouteConfig(name)}
		build(t)
		t.config.VirtualHosts = append(t.config.VirtualHosts, rs.b.unknownHost())
		return t
	})
	rs.b.out.Routes = append(rs.b.out.Routes, table.config)
	rs.b.out.tables = append(rs.b.out.tables, table)
}

func (rs *routeSet) taken(name string) bool {
	if rs.seen == nil {
		rs.seen = map[string]bool{}
	}
	again := rs.seen[name]
	rs.seen[name] = true
	return again
}

// sniffed adds the routes of a listener that one service has for itself.
func (rs *routeSet) sniffed(name string, e model.Egress, s *model.Service, port uint32) {
	if rs.taken(name) {
		return
	}
	var rules []*model.Config[*networking.VirtualService]
	if rule := e.Rules.For(s.Host); rule != nil {
		rules = append(rules, rule)
	}
	rs.add(name, []*model.Service{s}, rules, func(t *routeTable) {
		rs.b.addHost(t, map[string]bool{"*": true}, s, port, hostDomains(s, rs.b.view.Domain), e)
	})
}

// port adds the routes of an HTTP listener: those to the services with that port, or to all where it has none.
func (rs *routeSet) port(name string, e model.Egress, port uint32) {
	if rs.taken(name) {
		return
	}
	var services []*model.Service
	for _, s := range e.Services {
		if len(routed(s, port)) > 0 {
			services = append(services, s)
		}
	}
	rs.add(name, services, e.Rules.All(), func(t *routeTable) {
		claimed := map[string]bool{"*": true}
		for _, s := range services {
			for _, p := range routed(s, port) {
				rs.b.addHost(t, claimed, s, p.Number, hostDomains(s, rs.b.view.Domain), e)
			}
		}
		rs.b.addRuleHosts(t, claimed, e, port)
	})
}

// httpProxy adds the one route configuration of the HTTP proxy listener: a virtual host for each HTTP port of each
// service, told apart by the port in the host.
func (rs *routeSet) httpProxy(e model.Egress) {
	rs.add(httpProxyRoute, e.Services, e.Rules.All(), func(t *routeTable) {
		t.config.IgnorePortInHostMatching = false
		claimed := map[string]bool{"*": true}
		for _, s := range e.Services {
			for _, p := range routed(s, 0) {
				rs.b.addHost(t, claimed, s, p.Number, domains(s, p.Number, rs.b.view.Domain), e)
			}
		}
		rs.b.addRuleHosts(t, claimed, e, 80)
	})
}

// routed returns the ports of a service that HTTP is routed to from a port, or from a listener without one.
func routed(s *model.Service, port uint32) []model.Port {
	var out []model.Port
	for _, p := range s.Ports {
		if (port == 0 || p.Number == port) && (p.Protocol.IsHTTP() || p.Protocol == model.Unknown) {
			out = append(out, p)
		}
	}
	return out
}

func newRouteConfig(name string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: name, IgnorePortInHostMatching: true, ValidateClusters: wrapperspb.Bool(false),
		MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(maxBody),
	}
}

// addHost adds the virtual host of a service's port under those of domains that nobody has.
func (b *builder) addHost(t *routeTable, claimed map[string]bool, s *model.Service, port uint32, domains []string,
	e model.Egress,
) {
	if domains = claim(claimed, domains); len(domains) > 0 {
		host := routedHost{s, e.Rules.For(s.Host), port}
		t.add(host, s.Host, domains, host.routes(b.scope))
	}
}

func (t *routeTable) add(h routedHost, name string, domains []string, routes []*routev3.Route) {
	t.hosts = append(t.hosts, h)
	t.config.VirtualHosts = append(t.config.VirtualHosts, &routev3.VirtualHost{
		Name: fmt.Sprintf("%s:%d", name, h.port), Domains: domains, Routes: routes,
	})
}

// addRuleHosts adds virtual hosts for what rules name and no service is: they too may be called.
func (b *builder) addRuleHosts(t *routeTable, claimed map[string]bool, e model.Egress, port uint32) {
	own := map[string]*model.Config[*networking.VirtualService]{}
	for name, rule := range e.Rules.Hosts() {
		if b.scope.Service(name) == nil {
			own[name] = rule
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		host := routedHost{nil, own[name], port}
		routes := host.routes(b.scope)
		if len(routes) == 0 {
			t.absent = append(t.absent, host)
		} else if domains := claim(claimed, append([]string{name},
			shortNames(name, b.view.Domain)...)); len(domains) > 0 {
			t.add(host, name, domains, routes)
		}
	}
}

// claim returns those of domains that nobody has yet: Envoy rejects all routes over one domain in two virtual hosts.
func claim(claimed map[string]bool, domains []string) []string {
	var mine []string
	for _, d := range domains {
		if !claimed[d] {
			claimed[d] = true
			mine = append(mine, d)
		}
	}
	return mine
}

// hostDomains returns how a client may write a service's host where ports do not count.
func hostDomains(s *model.Service, domain string) []string {
	out := append([]string{s.Host}, shortNames(s.Host, domain)...)
	for _, a := range s.Addresses {
		ip, err := netip.ParseAddr(a)
		switch {
		case err != nil:
		case ip.Is6():
			out = append(out, "["+ip.String()+"]")
		default:
			out = append(out, ip.String())
		}
	}
	return out
}

// domains returns how a client may write a service's host with a port: 80 is left out in URLs.
func domains(s *model.Service, port uint32, domain string) []string {
	var out []string
	for _, name := range hostDomains(s, domain) {
		if port == 80 {
			out = append(out, name)
		}
		out = append(out, fmt.Sprintf("%s:%d", name, port))
	}
	return out
}

// shortNames returns what the resolver of domain "NAMESPACE.svc.SUFFIX" completes to host:
// "reviews.default.svc", "reviews.default" and, in its own namespace, "reviews".
func shortNames(host, domain string) []string {
	own, suffix, ok := strings.Cut(domain, ".svc.")
	prefix, found := strings.CutSuffix(host, ".svc."+suffix)
	name, namespace, qualified := strings.Cut(prefix, ".")
	if !ok || !found || !qualified || strings.Contains(namespace, ".") || model.IsWildcard(host) {
		return nil
	}
	out := []string{prefix + ".svc", prefix}
	if namespace == own {
		out = append(out, name)
	}
	return out
}

// unknownHost answers for what no service is.
func (b *builder) unknownHost() *routev3.VirtualHost {
	if cluster := unknownCluster(b.scope); cluster != blackHoleCluster {
		return &routev3.VirtualHost{
			Name: allowAny, Domains: []string{"*"},
			Routes: []*routev3.Route{toCluster(allowAny, cluster)},
		}
	}
	return &routev3.VirtualHost{
		Name:    blockAll,
		Domains: []string{"*"},
		Routes:  []*routev3.Route{{Name: blockAll, Match: routeMatch(nil), Action: directResponse(502, blockAllBody)}},
	}
}
