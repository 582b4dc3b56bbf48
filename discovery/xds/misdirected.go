package xds

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
