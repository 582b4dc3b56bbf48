package xds

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
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

// routeTable is a route configuration with the inputs of its virtual hosts. The configuration may have one more virtual
// host at the end, for hosts of no service.
type routeTable struct {
	config *routev3.RouteConfiguration
	hosts  []routedHost
	absent []routedHost // rules that have no route for the port

	everyHost bool        // one of hosts matches every host
	ground    tableGround // of a table whose virtual hosts are reused one by one
}

// routedHost holds the inputs of one virtual host.
type routedHost struct {
	service *model.Service                            // without endpoints; nil for a host that only a rule contains. The host may be another name of it
	rule    *model.Config[*networking.VirtualService] // nil if there is none
	port    uint32

	plain *plainHost          // nil if it has a rule, or other names
	asked *model.Dependencies // of its routes; nil if they are not reused
}

func (h routedHost) routes(scope *model.Scope) []*routev3.Route {
	r := router{scope: scope, gateway: model.MeshGateway, port: h.port}
	if h.service == nil {
		return r.routes(h.rule.Spec)
	}
	return r.serviceRoutes(h.service.Host, ruleSpec(h.rule))
}

// routeSet adds route configurations, one for each name.
type routeSet struct {
	b    *builder
	seen map[string]bool
}

// add reports whether a route configuration is to be added: none of that name was added already.
func (rs *routeSet) add(name string) bool {
	if rs.seen[name] {
		return false
	}
	if rs.seen == nil {
		rs.seen = map[string]bool{}
	}
	rs.seen[name] = true
	return true
}

func (rs *routeSet) put(table *routeTable) {
	rs.b.out.Routes = append(rs.b.out.Routes, table.config)
	rs.b.out.tables = append(rs.b.out.tables, table)
}

// sniffed adds the routes of a listener that belongs to one service: every request to its address is for the service,
// with any host. If no input changed, those of the generation before are reused.
func (rs *routeSet) sniffed(name string, egress int, port uint32) {
	if !rs.add(name) {
		return
	}
	domain, cluster := rs.b.view.Domain, rs.b.view.Cluster
	key := fmt.Sprintf("route %s of egress %d, port %d", name, egress, port)
	known := rs.b.out.memory.Made()
	table := model.RecallScoped(rs.b.out.memory, key, rs.b.scope, func(s *model.Scope) *routeTable {
		m := hostMaker{
			scope: s, egress: egress, number: port, domain: domain, cluster: cluster, table: &routeTable{config: newRouteConfig(name)},
			claimed: map[string]bool{"*": true},
		}
		if m.sniffed(); !m.table.everyHost {
			m.table.config.VirtualHosts = append(m.table.config.VirtualHosts, unknownHost(s))
		}
		return m.table
	})
	if rs.b.out.memory.Made() > known {
		rs.b.out.made.hosts++
		table.reuseEqualOf(rs.b.sibling)
	}
	rs.put(table)
}

// port adds the routes of an HTTP listener: to the services with that port, or to all services if port is 0.
func (rs *routeSet) port(name string, egress int, port uint32) {
	if rs.add(name) {
		rs.put(rs.b.table(tableGround{name: name, port: port}, egress, hostMaker.port))
	}
}

// httpProxy adds the one route configuration of the HTTP proxy listener: a virtual host for each HTTP port of each
// service, distinguished by the port in the host.
func (rs *routeSet) httpProxy(egress int) {
	if rs.add(httpProxyRoute) {
		rs.put(rs.b.table(tableGround{name: httpProxyRoute, proxy: true}, egress, hostMaker.httpProxy))
	}
}

// hostMaker makes the virtual hosts of one route configuration. It reads the mesh only through the scope. In sniffed that
// records the answers (see model.RecallScoped), and its other fields depend only on the key of the cached value, and on the view.
type hostMaker struct {
	scope   *model.Scope
	egress  int
	number  uint32 // the listener's port
	domain  string
	cluster string // of the proxy
	none    bool   // interception NONE
	table   *routeTable
	claimed map[string]bool // domains
	kept    *keptHosts      // nil if the scope records
}

func (m hostMaker) sniffed() {
	host, _, _ := strings.Cut(m.table.config.Name, ":")
	if s := m.scope.Service(host); s != nil {
		delete(m.claimed, "*")
		m.table.everyHost = true
		m.addHost(s, s.Host, m.number, []string{"*"}, m.scope.Rule(m.egress, host))
	}
}

func (m hostMaker) port() {
	rules, services := m.scope.Rules(m.egress), m.scope.ServicesOn(m.egress, m.number)
	for _, s := range services {
		for _, p := range routed(s, m.number) {
			m.addService(s, p.Number, rules, func(s *model.Service, aliases ...string) []string {
				return hostDomains(s, m.domain, m.cluster, aliases...)
			})
		}
	}
	if m.number == 80 || m.number == 0 { // as in Istio; 0 for a Unix socket
		m.addRuleHosts(rules, services, m.number)
	}
}

func (m hostMaker) httpProxy() {
	m.table.config.IgnorePortInHostMatching = false
	rules, services := m.scope.Rules(m.egress), m.scope.ServicesOn(m.egress, 0)
	for _, s := range services {
		for _, p := range routed(s, 0) {
			m.addService(s, p.Number, rules, func(s *model.Service, aliases ...string) []string {
				return domains(s, p.Number, m.domain, m.cluster, aliases...)
			})
		}
	}
	m.addRuleHosts(rules, services, 80)
}

// named returns the service whose names lead to a virtual host without a rule. Without interception nothing tells which Pod of a headless service
// a request is for, so the Pods' own names are those of no service: any other Pod would be a wrong one.
func (m hostMaker) named(s *model.Service) *model.Service {
	if !m.none || !s.Headless {
		return s
	}
	alone := *s
	alone.Headless = false
	return &alone
}

// routed returns the ports of a service that take HTTP from a listener's port; 0 for a listener without a port.
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

// addService adds the virtual hosts of a service's port: one for the service and its other names, and one for each of
// these that has a rule of its own. domains returns the forms of the host of a service, and of other names.
func (m hostMaker) addService(s *model.Service, port uint32, rules model.Rules, domains func(s *model.Service, aliases ...string) []string) {
	s = m.scope.WithoutEndpoints(s)
	rule := rules.For(s.Host)
	if rule == nil && len(s.Aliases) == 0 {
		m.addPlain(s, port, func() []string { return domains(m.named(s)) })
		return
	}
	var same []string
	for _, name := range aliasesIn(m.scope, s) {
		if own := rules.For(name); own != nil && own != rule {
			m.addHost(s, name, port, domains(&model.Service{Host: name, Headless: s.Headless}), own)
		} else {
			same = append(same, name)
		}
	}
	names := s
	if rule == nil {
		names = m.named(s)
	}
	m.addHost(s, s.Host, port, domains(names, same...), rule)
}

// aliasesIn returns the other names of a service that lead to it in a scope. The others are resolved by DNS, or not seen.
func aliasesIn(scope *model.Scope, s *model.Service) (out []string) {
	for _, name := range s.Aliases {
		if of := scope.Service(name); of != nil && of.Host == s.Host {
			out = append(out, name)
		}
	}
	return out
}

// addHost adds the virtual host of a service's port, with those of domains that are still free.
func (m hostMaker) addHost(s *model.Service, name string, port uint32, domains []string,
	rule *model.Config[*networking.VirtualService],
) {
	if domains = claim(m.claimed, domains); len(domains) > 0 {
		m.add(routedHost{service: s, rule: rule, port: port}, name, domains, nil)
	}
}

// add adds a virtual host with its routes; nil for those of its rule or service.
func (m hostMaker) add(h routedHost, name string, domains []string, routes []*routev3.Route) {
	name = hostName(name, h.port)
	var made *routev3.VirtualHost
	if routes == nil && m.kept != nil {
		made, h.asked = m.kept.recallRuled(h, name, domains, m.scope)
	} else {
		if routes == nil {
			routes = h.routes(m.scope)
		}
		made = m.kept.equal(virtualHost(name, domains, routes...))
	}
	m.table.hosts = append(m.table.hosts, h)
	m.table.config.VirtualHosts = append(m.table.config.VirtualHosts, made)
}

// hostName returns the name of a virtual host.
func hostName(host string, port uint32) string {
	return host + ":" + strconv.FormatUint(uint64(port), 10)
}

// virtualHost returns a virtual host. The header x-envoy-attempt-count of each request contains the number of the
// attempt.
func virtualHost(name string, domains []string, routes ...*routev3.Route) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: name, Domains: domains, Routes: routes, IncludeRequestAttemptCount: true}
}

// addRuleHosts adds virtual hosts for the hosts of rules that belong to no service: clients may call these, too. A
// wildcard that matches some of the listener's services stands for these, as in Istio: requests for other hosts below it do not follow the rule.
func (m hostMaker) addRuleHosts(rules model.Rules, services []*model.Service, port uint32) {
	own := map[string]*model.Config[*networking.VirtualService]{}
	for name, rule := range rules.Hosts() {
		stands := model.IsWildcard(name) && slices.ContainsFunc(services, func(s *model.Service) bool {
			return model.HostMatches(name, s.Host) && len(routed(s, m.number)) > 0
		})
		if m.scope.Service(name) == nil && !stands {
			own[name] = rule
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		host := routedHost{rule: own[name], port: port}
		routes := host.routes(m.scope)
		if len(routes) == 0 {
			m.table.absent = append(m.table.absent, host)
		} else if domains := claim(m.claimed, append([]string{asDomain(name)}, shortNames(name, m.domain)...)); len(domains) > 0 {
			m.add(host, name, domains, routes)
		}
	}
}

// claim returns those of domains that are still free: Envoy rejects a whole route configuration if two virtual hosts
// have the same domain.
func claim(claimed map[string]bool, domains []string) []string {
	all, mine := true, domains
	for i, d := range domains {
		switch {
		case !claimed[d]:
			if claimed[d] = true; !all {
				mine = append(mine, d)
			}
		case all:
			all, mine = false, slices.Clone(domains[:i])
		}
	}
	return mine
}

// asDomain returns a host in the form of a Host header: an IPv6 address in brackets.
func asDomain(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		return "[" + ip.String() + "]"
	}
	return host
}

// hostDomains returns the forms of a service's host and of its other names, without a port, that a client in a DNS domain
// and a cluster may use. Each Pod of a headless service may have a name below those of the service, such as that of a StatefulSet.
func hostDomains(s *model.Service, domain, cluster string, aliases ...string) []string {
	out := append([]string{asDomain(s.Host)}, shortNames(s.Host, domain)...)
	for _, name := range aliases {
		out = append(append(out, name), shortNames(name, domain)...)
	}
	if s.Headless {
		for _, name := range out {
			out = append(out, "*."+name)
		}
	}
	for _, a := range s.AddressesIn(cluster) {
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

// domains returns the forms of a service's host with a port; for port 80, which URLs leave out, also those without.
func domains(s *model.Service, port uint32, domain, cluster string, aliases ...string) []string {
	var out []string
	for _, name := range hostDomains(s, domain, cluster, aliases...) {
		if port == 80 {
			out = append(out, name)
		}
		out = append(out, fmt.Sprintf("%s:%d", name, port))
	}
	return out
}

// shortNames returns the names that a resolver with the search domain "NAMESPACE.svc.SUFFIX" completes to host:
// "reviews.default.svc", "reviews.default" and, in its own namespace, "reviews". For any other domain, such as
// "service.consul", it is the single label before the domain.
func shortNames(host, domain string) []string {
	if domain != "" && !strings.Contains(domain, ".svc.") {
		if short, below := strings.CutSuffix(host, "."+domain); below && !strings.Contains(short, ".") && !model.IsWildcard(host) {
			return []string{short}
		}
		return nil
	}
	service, namespace := serviceOf(host, domain)
	if service == "" {
		return nil
	}
	out := []string{service + "." + namespace + ".svc", service + "." + namespace}
	if own, _, _ := strings.Cut(domain, ".svc."); namespace == own {
		out = append(out, service)
	}
	return out
}

// unknownHost returns the virtual host for requests to unknown hosts.
func unknownHost(scope *model.Scope) *routev3.VirtualHost {
	if cluster := unknownCluster(scope); cluster != blackHoleCluster {
		return virtualHost(allowAny, []string{"*"}, toCluster(allowAny, cluster))
	}
	return virtualHost(blockAll, []string{"*"},
		&routev3.Route{Name: blockAll, Match: routeMatch(nil, false), Action: directResponse(502, blockAllBody)})
}
