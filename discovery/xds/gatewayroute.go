package xds

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// tls returns the server's settings, with the name of the certificate that an issuer gives to it.
func (s gatewayServer) tls() *networking.ServerTLSSettings {
	if model.Issuer(s.Tls.GetCredentialName()) == "" {
		return s.Tls
	}
	out := proto.CloneOf(s.Tls)
	out.CredentialName = model.IssuedSecret(s.gateway.Meta, s.Server)
	return out
}

// answerQuestions adds the answers to an issuer's questions about hosts of servers at port 80: before every other route, and
// before a redirection to HTTPS.
func answerQuestions(out *routev3.RouteConfiguration, servers []gatewayServer, questions []model.Question) {
	for _, q := range questions {
		at := slices.ContainsFunc(servers, func(s gatewayServer) bool {
			return s.plain() && s.Port.GetNumber() == 80 &&
				slices.ContainsFunc(model.ServerHosts(s.Server), func(host string) bool { return model.HostMatches(host, q.Host) })
		})
		if !at {
			continue
		}
		h := hostThatGets(out, q.Host)
		if h == nil {
			h = virtualHost(q.Host+":80", []string{asDomain(q.Host)})
			out.VirtualHosts = append(out.VirtualHosts, h)
		}
		if h.RequireTls == routev3.VirtualHost_ALL {
			h.RequireTls = routev3.VirtualHost_NONE
			h.Routes = append([]*routev3.Route{redirection()}, h.Routes...)
		}
		h.Routes = append([]*routev3.Route{answerTo(q)}, h.Routes...)
	}
}

// hostThatGets returns the virtual host that gets the requests for a host, nil if none does. The wildcards of Gateways stand for the
// beginning of a name.
func hostThatGets(out *routev3.RouteConfiguration, host string) *routev3.VirtualHost {
	var found *routev3.VirtualHost
	length := -1
	for _, h := range out.VirtualHosts {
		for _, domain := range h.Domains {
			switch {
			case domain == host:
				return h
			case model.IsWildcard(domain) && strings.HasSuffix(host, domain[1:]) && len(domain) > length:
				found, length = h, len(domain)
			}
		}
	}
	return found
}

// answerTo returns the route of an answer. The path has a token that nobody guesses.
func answerTo(q model.Question) *routev3.Route {
	return &routev3.Route{
		Name:   "acme-challenge",
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: q.Path}},
		Action: directResponse(200, q.Answer),
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "content-type", Value: "text/plain"},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
	}
}

// redirection does as a route what require_tls does for the whole virtual host, which would be asked before any route: a request
// that came by HTTPS goes on, by what the connection or a trusted proxy before it says.
func redirection() *routev3.Route {
	return &routev3.Route{
		Name: "https-redirect",
		Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""},
			Headers: []*routev3.HeaderMatcher{{
				Name: "x-forwarded-proto", InvertMatch: true, TreatMissingHeaderAsEmpty: true,
				HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
					StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "https"}},
				},
			}},
		},
		Action: &routev3.Route_Redirect{Redirect: &routev3.RedirectAction{
			SchemeRewriteSpecifier: &routev3.RedirectAction_HttpsRedirect{HttpsRedirect: true},
		}},
	}
}

// A client chooses a server of a gateway by the name in its handshake, and a virtual host by the Host of a request. Without a certificate it
// may not reach a host whose own server requires one by the handshake of a wider server.

// owners are the servers of a listener by their hosts.
type owners struct {
	first     map[string]gatewayServer // the first server that has a host
	wildcards []string                 // narrowest first
	strict    []string                 // hosts of servers that require a certificate of clients
}

func ownersOf(servers []gatewayServer) owners {
	o := owners{first: map[string]gatewayServer{}}
	for _, s := range servers {
		hosts := model.ServerHosts(s.Server)
		if model.RequiresClient(s.Tls) {
			o.strict = append(o.strict, hosts...)
		}
		for _, h := range hosts {
			if _, known := o.first[h]; known {
				continue
			}
			if o.first[h] = s; model.IsWildcard(h) {
				o.wildcards = append(o.wildcards, h)
			}
		}
	}
	slices.SortFunc(o.wildcards, func(a, b string) int { return len(b) - len(a) })
	return o
}

// of returns the server that takes handshakes for a host: the one with the narrowest host that matches, the first of these.
func (o owners) of(host string) (owner gatewayServer, found bool) {
	if owner, found = o.first[host]; found {
		return owner, true
	}
	i := slices.IndexFunc(o.wildcards, func(h string) bool { return model.HostMatches(h, host) })
	if i < 0 {
		return gatewayServer{}, false
	}
	return o.first[o.wildcards[i]], true
}

// misdirects reports whether requests for a host belong to another server of the listener, which requires a certificate of clients that a
// handshake with s does not.
func (o owners) misdirects(s gatewayServer, host string) bool {
	if len(o.strict) == 0 || !s.ends() {
		return false
	}
	owner, found := o.of(host)
	return found && model.RequiresClient(owner.Tls) && owner.routeName() != s.routeName() && !proto.Equal(owner.Tls, s.Tls)
}

// misdirected returns the hosts of other servers for which a handshake with s is answered 421.
func (o owners) misdirected(s gatewayServer) (out []string) {
	own := model.ServerHosts(s.Server)
	for _, host := range o.strict {
		if slices.ContainsFunc(own, func(h string) bool { return model.HostMatches(h, host) }) && !slices.Contains(out, host) && o.misdirects(s, host) {
			out = append(out, host)
		}
	}
	return out
}

// misdirectedRequest answers every request: its client has to connect by the name of the host.
func misdirectedRequest() *routev3.Route {
	return &routev3.Route{Match: routeMatch(nil, false), Action: &routev3.Route_DirectResponse{
		DirectResponse: &routev3.DirectResponseAction{Status: 421},
	}}
}
