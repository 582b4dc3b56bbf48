package xds

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A client chooses a server of a gateway by the name in its handshake, and a virtual host by the Host of a request. Without a certificate it
// may not reach a host whose own server requires one by the handshake of a wider server.

// ownerOf returns the server of a listener that takes handshakes for a host: the one with the narrowest host that matches, the first of these.
func ownerOf(host string, servers []gatewayServer) (owner gatewayServer, found bool) {
	narrowest := ""
	for _, s := range servers {
		for _, h := range model.ServerHosts(s.Server) {
			if model.HostMatches(h, host) && (!found || narrower(h, narrowest)) {
				owner, found, narrowest = s, true, h
			}
		}
	}
	return owner, found
}

func narrower(a, b string) bool {
	if model.IsWildcard(a) != model.IsWildcard(b) {
		return model.IsWildcard(b)
	}
	return len(a) > len(b)
}

// misdirects reports whether requests for a host belong to another server of the listener, which requires a certificate of clients that a
// handshake with s does not.
func (s gatewayServer) misdirects(host string, servers []gatewayServer) bool {
	owner, found := ownerOf(host, servers)
	return found && s.ends() && model.RequiresClient(owner.Tls) && owner.routeName() != s.routeName() && !proto.Equal(owner.Tls, s.Tls)
}

// misdirected returns the hosts of other servers for which a handshake with s is answered 421.
func (s gatewayServer) misdirected(servers []gatewayServer) (out []string) {
	for _, other := range servers {
		for _, host := range model.ServerHosts(other.Server) {
			if model.RequiresClient(other.Tls) && !slices.Contains(out, host) && s.misdirects(host, servers) &&
				slices.ContainsFunc(model.ServerHosts(s.Server), func(own string) bool { return model.HostMatches(own, host) }) {
				out = append(out, host)
			}
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
