package model

import (
	"cmp"
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

// plainHost is a host that a server answers in plain text.
type plainHost struct {
	host string
	port uint32
	bind string
}

// answersToo returns another Gateway that answers a host in plain text at a server's port: it names the host, or has a rule for
// it. nil for none.
func (j *judge) answersToo(meta Meta, g *networking.Gateway, s *networking.Server, host string) *Meta {
	if j.plainHosts == nil {
		j.plainHosts = map[plainHost][]*Config[*networking.Gateway]{}
		for _, name := range slices.Sorted(maps.Keys(j.specs)) {
			for _, s := range j.specs[name].Spec.Servers {
				if protocol, _ := ParseProtocol(s.GetPort().GetProtocol()); !protocol.IsHTTP() || s.GetTls().GetHttpsRedirect() {
					continue
				}
				for _, host := range ServerHosts(s) {
					at := plainHost{host, s.Port.Number, cmp.Or(s.Bind, "0.0.0.0")}
					j.plainHosts[at] = append(j.plainHosts[at], j.specs[name])
				}
			}
		}
	}
	for pattern := range patternsOf(host) {
		for _, other := range j.plainHosts[plainHost{pattern, s.Port.Number, cmp.Or(s.Bind, "0.0.0.0")}] {
			if other.Meta.Key() != meta.Key() && mayShare(g.Selector, other.Spec.Selector) && (pattern == host || j.hasRulesFor(other, host)) {
				return &other.Meta
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
