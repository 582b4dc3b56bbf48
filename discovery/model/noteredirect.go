package model

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// redirects adds a note if a server redirects a host to HTTPS, and a server of another Gateway answers that host in plain text at
// the same port of the same proxies. The redirection then counts for routes of its own Gateway only: it would take the other's requests.
func (j *judge) redirects(meta Meta, g *networking.Gateway) {
	for i, s := range g.Servers {
		if !redirectsHTTP(s) {
			continue
		}
		for _, host := range ServerHosts(s) {
			if other := j.answersToo(meta, g, s, host); other != nil {
				j.conflict(meta, *other, index("spec.servers", i)+".tls.httpsRedirect", "%s has %s at port %d too and does not redirect: "+
					"what no route of this Gateway's own rules matches is answered in plain text; want httpsRedirect there, or other hosts", name(*other), host, s.Port.Number)
				break
			}
		}
	}
}

// httpHost is a host of which a server reads HTTP requests, in plain text or within TLS.
type httpHost struct {
	host string
	port uint32
	bind string
	tls  bool
}

// httpServer is a server of HTTP, and its Gateway.
type httpServer struct {
	*networking.Server
	gateway *Config[*networking.Gateway]
}

// httpServersOf returns the servers that have a host, which may be a wildcard, at the port of another one, and whose proxies may be those of g.
func (j *judge) httpServersOf(host string, s *networking.Server, tls bool, g *networking.Gateway) (out []httpServer) {
	if j.httpServers == nil {
		j.httpServers = map[httpHost][]httpServer{}
		for _, name := range slices.Sorted(maps.Keys(j.specs)) {
			for _, s := range j.specs[name].Spec.Servers {
				protocol, _ := ParseProtocol(s.GetPort().GetProtocol())
				if secured := protocol == HTTPS && EndsTLS(s.Tls); !secured && (!protocol.IsHTTP() || s.GetTls().GetHttpsRedirect()) {
					continue
				}
				for _, host := range ServerHosts(s) {
					at := httpHost{host, s.Port.Number, orAny(s.Bind), protocol == HTTPS}
					j.httpServers[at] = append(j.httpServers[at], httpServer{s, j.specs[name]})
				}
			}
		}
	}
	for _, other := range j.httpServers[httpHost{host, s.Port.Number, orAny(s.Bind), tls}] {
		if mayShare(g.Selector, other.gateway.Spec.Selector) {
			out = append(out, other)
		}
	}
	return out
}

// answersToo returns another Gateway that answers a host in plain text at a server's port: it names the host, or has a rule for
// it. nil for none.
func (j *judge) answersToo(meta Meta, g *networking.Gateway, s *networking.Server, host string) *Meta {
	for pattern := range patternsOf(host) {
		for _, other := range j.httpServersOf(pattern, s, false, g) {
			if other.gateway.Meta.Key() != meta.Key() && (pattern == host || j.hasRulesFor(other.gateway, host)) {
				return &other.gateway.Meta
			}
		}
	}
	return nil
}

// patternsOf yields a host, and the wildcards that match it, the narrowest first.
func patternsOf(host string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if host != "*" && !yield(host) {
			return
		}
		for rest := strings.TrimPrefix(host, "*."); ; {
			_, below, found := strings.Cut(rest, ".")
			if !found {
				break
			}
			if rest = below; !yield("*." + rest) {
				return
			}
		}
		yield("*")
	}
}

// hasRulesFor reports whether a VirtualService of the Gateway has HTTP routes for just this host.
func (j *judge) hasRulesFor(gateway *Config[*networking.Gateway], host string) bool {
	return slices.ContainsFunc(j.mesh.GatewayRules(gateway, gateway.Namespace), func(v *Config[*networking.VirtualService]) bool {
		return len(v.Spec.Http) > 0 && slices.ContainsFunc(v.Spec.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
	})
}

func redirectsHTTP(s *networking.Server) bool {
	protocol, _ := ParseProtocol(s.GetPort().GetProtocol())
	return protocol.IsHTTP() && s.GetTls().GetHttpsRedirect()
}

// ServerHosts returns a server's hosts without their optional namespaces, in lower case.
func ServerHosts(s *networking.Server) []string {
	var out []string
	for _, entry := range s.Hosts {
		if _, host, found := strings.Cut(entry, "/"); found {
			entry = host
		}
		out = append(out, strings.ToLower(entry))
	}
	return out
}

// mayShare reports whether a workload can have the labels of both selectors.
func mayShare(a, b map[string]string) bool {
	for key, value := range a {
		if other, both := b[key]; both && other != value {
			return false
		}
	}
	return true
}
