package xds

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	blockAll     = "block_all"
	blockAllBody = "no service of this name and port in the mesh\n"
)

// httpProxyRoutes returns the one route configuration of the HTTP proxy listener: a virtual host for each HTTP port
// of each service, and an answer for whatever else is asked.
func httpProxyRoutes(m *model.Mesh, domain string) *routev3.RouteConfiguration {
	out := &routev3.RouteConfiguration{Name: httpProxyRoute}
	claimed := map[string]bool{"*": true} // block_all's
	for _, s := range m.Services() {
		for _, port := range s.Ports {
			if !port.Protocol.IsHTTP() {
				continue
			}
			if domains := claim(claimed, domains(s.Host, port.Number, domain)); len(domains) > 0 {
				out.VirtualHosts = append(out.VirtualHosts, &routev3.VirtualHost{
					Name:    fmt.Sprintf("%s:%d", s.Host, port.Number),
					Domains: domains,
					Routes:  httpRoutes(m, s, port.Number),
				})
			}
		}
	}
	out.VirtualHosts = append(out.VirtualHosts, blockAllHost())
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
	if !ok || !found || !qualified || strings.Contains(namespace, ".") {
		return nil
	}
	out := []string{prefix + ".svc", prefix}
	if namespace == own {
		out = append(out, name)
	}
	return out
}

// blockAllHost answers what no service is asked for: an explicit proxy has no original destination to pass it on to.
func blockAllHost() *routev3.VirtualHost {
	return &routev3.VirtualHost{
		Name:    blockAll,
		Domains: []string{"*"},
		Routes:  []*routev3.Route{{Name: blockAll, Match: routeMatch(nil), Action: directResponse(502, blockAllBody)}},
	}
}
