package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
)

// Server is the proxy of an endpoint, as far as it is known.
type Server struct {
	Absent    string // why it is not judged; "" if it is
	Proxy     string // its node ID
	Principal string // of its certificate, "spiffe://..."; "" if it is not known
	Listeners []*listenerv3.Listener
	Origins   func(Part) []Place
}

// Client is what a server's proxy learns of the client's.
type Client struct {
	Principal string     // of its certificate; "" if it is not known
	Address   netip.Addr // from which it connects
}

// arrival is what becomes of a request at the proxy of an endpoint.
type arrival struct {
	steps  []Step
	end    Outcome
	unless []string
}

// arrive adds what becomes of a request at its endpoints, which have parts of its share by their number.
func (j *judge) arrive(sent Outcome, r Request) {
	all := sent.Endpoints
	var order []string
	groups := map[string]*arrival{}
	for _, e := range all {
		a := j.at(sent, e, r)
		key := fmt.Sprint(a.end.Status, a.end.Flag, a.end.Reason, a.unless)
		if groups[key] == nil {
			order, groups[key] = append(order, key), &a
			a.end.Endpoints = nil
		}
		groups[key].end.Endpoints = append(groups[key].end.Endpoints, e)
	}
	before := j.unjudged
	for _, key := range order {
		a := groups[key]
		j.steps = append(j.steps, a.steps...)
		a.end.Share = sent.Share * float64(len(a.end.Endpoints)) / float64(len(all))
		j.unjudged = append(slices.Clone(before), a.unless...)
		j.end(a.end)
	}
	j.unjudged = before
}

// at judges the connection to one endpoint, and the request on it.
func (j *judge) at(sent Outcome, e Endpoint, r Request) arrival {
	a := arrival{end: sent}
	a.end.Reason = cmp.Or(sent.Reason, "a server answers")
	if j.served.Server == nil {
		return a
	}
	s := j.served.Server(sent.Cluster, e.Address)
	if r.TLS && !e.hello.encrypted {
		e.hello = r.hello() // the proxy of the client passes it on
	}
	if e.hello.encrypted && sent.Path != "" && e.hello.marked != nil {
		e.hello.protocols = e.hello.marked
	}
	to, err := netip.ParseAddrPort(e.Address)
	switch {
	case s.Absent != "":
	case err != nil:
		s.Absent = "its address is not one of IP"
	case e.hello.other != "":
		s.Absent = "explain does not know what the client's " + e.hello.other + " says"
	}
	if s.Absent != "" {
		a.steps = append(a.steps, Step{Kind: "server", Name: e.Address, Text: "its proxy is not judged: " + s.Absent, Unmade: notThere})
		return a
	}
	l := inboundFor(s.Listeners, to)
	if l == nil {
		a.steps = append(a.steps, Step{Kind: "server", Name: s.Proxy, Text: fmt.Sprintf("has no listener for port %d: the program itself answers", to.Port()), Unmade: notThere})
		return a
	}
	made := s.Origins(Part{Port: uint32(to.Port())})
	c := inboundConnection(l, to, e.hello, j.bytes)
	chain := chainFor(l, c)
	step := Step{Kind: "server", Name: s.Proxy, Text: fmt.Sprintf("listener %s; port %d takes %s", l.Name, to.Port(), taken(l, to)), Origins: made}
	if len(made) == 0 {
		step.Unmade = "no service has the port, and no PeerAuthentication decides"
	}
	a.steps = append(a.steps, step)
	if flag, fault := meets(e.hello, chain, s.Principal); fault != "" {
		reason := fmt.Sprintf("%s%s, but the server's port %d takes %s%s", e.hello.kind(), by(j.tlsOrigins(sent.Cluster)), to.Port(), taken(l, to), by(made))
		if fault != mismatched {
			reason = fault
		}
		a.refuse(503, flag, reason, r)
		return a
	}
	if chain.TransportSocket != nil && !e.hello.peers() {
		a.unless = append(a.unless, "a check of certificates, which explain does not know")
	}
	if r.To, r.Path, r.Whole = to, cmp.Or(r.Path, "/"), false; sent.Path != "" { // else the client's proxy passes on bytes, of which the server's may make a request
		r.Host, r.Path = sent.Host, sent.Path
	}
	known := call{Request: r, secure: e.hello.mutual && chain.TransportSocket != nil, from: j.served.Client.Address, server: c.server}
	if e.hello.peers() {
		known.principal = j.served.Client.Principal
	}
	if e.hello.encrypted && chain.TransportSocket == nil {
		a.end.Reason = "a server answers, which must speak TLS itself: its proxy passes the bytes on"
	}
	a.filters(chain, s, known, j.bytes)
	return a
}

// refuse ends the request at the server's proxy; a connection without HTTP is closed.
func (a *arrival) refuse(status int, flag, reason string, r Request) {
	if r.TCP {
		a.end.Closed, a.end.Reason = true, "the connection is closed: "+reason
		return
	}
	a.end.Status, a.end.Flag, a.end.Reason = status, flag, reason
}
