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

// routeSet adds route configurations, each name once.
type routeSet struct {
	b    *builder
	seen map[string]bool
}

// add adds what build makes of services under rules, unless all that it is made of is as it was.
func (rs *routeSet) add(name string, services []*model.Service, rules []*model.Config[*networking.VirtualService], build func() *routev3.RouteConfiguration) {
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
	rs.b.out.Routes = append(rs.b.out.Routes, model.Recall(rs.b.out.memory, "route "+name, inputs, build))
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
	rs.add(name, []*model.Service{s}, rules, func() *routev3.RouteConfiguration {
		out := rs.b.routeConfig(name)
		rs.b.addHost(out, map[string]bool{"*": true}, s, port, hostDomains(s, rs.b.view.Domain), e)
		out.VirtualHosts = append(out.VirtualHosts, rs.b.unknownHost())
		return out
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
	rs.add(name, services, e.Rules.All(), func() *routev3.RouteConfiguration {
		out := rs.b.routeConfig(name)
		claimed := map[string]bool{"*": true}
		for _, s := range services {
			for _, p := range routed(s, port) {
				rs.b.addHost(out, claimed, s, p.Number, hostDomains(s, rs.b.view.Domain), e)
			}
		}
		rs.b.addRuleHosts(out, claimed, e, port)
		out.VirtualHosts = append(out.VirtualHosts, rs.b.unknownHost())
		return out
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

func (b *builder) routeConfig(name string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: name, IgnorePortInHostMatching: true, ValidateClusters: wrapperspb.Bool(false),
		MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(maxBody),
	}
}

// addHost adds the virtual host of a service's port under those of domains that nobody has.
func (b *builder) addHost(out *routev3.RouteConfiguration, claimed map[string]bool, s *model.Service, port uint32, domains []string, e model.Egress) {
	if domains = claim(claimed, domains); len(domains) == 0 {
		return
	}
	out.VirtualHosts = append(out.VirtualHosts, &routev3.VirtualHost{
		Name: fmt.Sprintf("%s:%d", s.Host, port), Domains: domains,
		Routes: router{b.scope, model.MeshGateway, port}.serviceRoutes(s, ruleSpec(e.Rules.For(s.Host))),
	})
}

// addRuleHosts adds virtual hosts for what rules name and no service is: they too may be called.
func (b *builder) addRuleHosts(out *routev3.RouteConfiguration, claimed map[string]bool, e model.Egress, port uint32) {
	own := map[string]*networking.VirtualService{}
	for host, rule := range e.Rules.Hosts() {
		if b.scope.Service(host) == nil && len(rule.Spec.Http) > 0 {
			own[host] = rule.Spec
		}
	}
	for _, host := range slices.Sorted(maps.Keys(own)) {
		routes := router{b.scope, model.MeshGateway, port}.routes(own[host])
		if len(routes) == 0 {
			continue
		}
		if domains := claim(claimed, append([]string{host}, shortNames(host, b.view.Domain)...)); len(domains) > 0 {
			out.VirtualHosts = append(out.VirtualHosts, &routev3.VirtualHost{
				Name: fmt.Sprintf("%s:%d", host, port), Domains: domains, Routes: routes,
			})
		}
	}
}

// httpProxy is the one route configuration of the HTTP proxy listener: a virtual host for each HTTP port of each
// service, told apart by the port in the host.
func (b *builder) httpProxy(name string, e model.Egress) *routev3.RouteConfiguration {
	out := b.routeConfig(name)
	out.IgnorePortInHostMatching = false
	claimed := map[string]bool{"*": true}
	for _, s := range e.Services {
		for _, port := range s.Ports {
			if port.Protocol.IsHTTP() || port.Protocol == model.Unknown {
				b.addHost(out, claimed, s, port.Number, domains(s.Host, port.Number, b.view.Domain), e)
			}
		}
	}
	b.addRuleHosts(out, claimed, e, 80)
	out.VirtualHosts = append(out.VirtualHosts, b.unknownHost())
	return out
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

// domains returns how a client in the proxy's DNS domain may write host and port: 80 is left out in URLs.
func domains(host string, port uint32, domain string) []string {
	var out []string
	for _, name := range append([]string{host}, shortNames(host, domain)...) {
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
		return &routev3.VirtualHost{Name: allowAny, Domains: []string{"*"}, Routes: []*routev3.Route{toCluster(allowAny, cluster)}}
	}
	return &routev3.VirtualHost{
		Name:    blockAll,
		Domains: []string{"*"},
		Routes:  []*routev3.Route{{Name: blockAll, Match: routeMatch(nil), Action: directResponse(502, blockAllBody)}},
	}
}
