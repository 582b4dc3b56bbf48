package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
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

// clientOf returns what servers learn of a proxy.
func clientOf(m *model.Mesh, s sender) Client {
	ip, _ := netip.ParseAddr(s.id.IP)
	return Client{Principal: principalOf(m, s.view.Outbound.Namespace, s.account), Address: ip}
}

// principalOf returns the identity of a service account, "" if that is not known.
func principalOf(m *model.Mesh, namespace, account string) string {
	if account == "" {
		return ""
	}
	return "spiffe://" + m.Settings().TrustDomains()[0] + "/ns/" + namespace + "/sa/" + account
}

// servers returns what finds the proxy of an endpoint of a cluster. Each is made once.
func (q Question) servers(m *model.Mesh, all []Connected) func(cluster, address string) Server {
	made := map[string]Server{}
	return func(cluster, address string) Server {
		key := cluster + " " + address
		if s, known := made[key]; known {
			return s
		}
		made[key] = q.server(m, all, cluster, address)
		return made[key]
	}
}

func (q Question) server(m *model.Mesh, all []Connected, cluster, address string) Server {
	host := cluster[strings.LastIndexByte(cluster, '|')+1:]
	ip, _ := splitPort(address)
	ip = strings.Trim(ip, "[]")
	parsed, err := netip.ParseAddr(ip)
	if err != nil {
		return Server{Absent: "its address is not one of IP"}
	}
	services := m.ServicesAt(parsed)
	i := slices.IndexFunc(services, func(s *model.Service) bool { return s.Host == host })
	if !strings.Contains(cluster, "|") { // the program names the address, and no service
		i = min(0, len(services)-1)
		for k, s := range services {
			if sidecarAt(all, s.Namespace, ip) != nil {
				i = k
			}
		}
	}
	if i < 0 {
		return Server{Absent: "the address is of no endpoint, such as that of a gateway to another network"}
	}
	s := services[i]
	k := slices.IndexFunc(s.Endpoints, func(e model.Endpoint) bool { return e.Address == ip })
	c := sidecarAt(all, s.Namespace, ip)
	switch {
	case s.External:
		return Server{Absent: "it is outside of the mesh"}
	case k < 0 || !s.Endpoints[k].TakesMutualTLS() && len(q.ServerMetadata) == 0 && c == nil:
		return Server{Absent: "nothing says that it has one: it has no service account"}
	}
	e := s.Endpoints[k]
	if c != nil && len(q.ServerMetadata) == 0 {
		return serverOf(m, c.Node+", which is connected", principalOf(m, s.Namespace, cmp.Or(c.Account, e.ServiceAccount)), c.View.Inbound)
	}
	w := &model.Workload{Namespace: s.Namespace, Name: nameAt(m, s.Namespace, ip), Addresses: []string{ip}, Labels: e.Labels, Proxied: e.Proxied, ServiceAccount: e.ServiceAccount}
	proxy, err := sidecarOf(m, w, q.ServerMetadata)
	if err != nil {
		return Server{Absent: err.Error()}
	}
	return serverOf(m, proxy.ID.String(), principalOf(m, s.Namespace, e.ServiceAccount), xds.ViewOf(proxy).Inbound)
}

// serverOf returns the proxy of an endpoint.
func serverOf(m *model.Mesh, id, principal string, view xds.Inbound) Server {
	origins := xds.InboundOriginsOf(m, view)
	return Server{
		Proxy: id, Principal: principal, Listeners: xds.BuildInbound(m, view).Listeners,
		Origins: func(p Part) []Place {
			if p.Policy != "" {
				return placed(origins.Policy(p.Policy))
			}
			return placed(origins.Port(p.Port))
		},
	}
}

// nameAt returns the name of the workload that has an address, else a name made of that.
func nameAt(m *model.Mesh, namespace, ip string) (name string) {
	for w := range m.Workloads() {
		if w.Namespace == namespace && slices.Contains(w.Addresses, ip) {
			name = cmp.Or(name, w.Name)
		}
	}
	return cmp.Or(name, strings.NewReplacer(":", "-", ".", "-").Replace(ip))
}

// filters takes a call through the filters of a server's chain.
func (a *arrival) filters(chain *listenerv3.FilterChain, s Server, c call, bytes bool) {
	for _, f := range chain.Filters {
		switch m := unpack(f.GetTypedConfig()).(type) {
		case *tcprbacv3.RBAC:
			if a.policy(s, m.Rules, c) {
				a.refuse(503, "UC", a.end.Reason, c.Request)
				return
			}
		case *hcmv3.HttpConnectionManager:
			if bytes {
				a.end.Status, a.end.By, a.end.Reason = 400, "the server's proxy", "it wants HTTP, and closes the connection"
				return
			}
			a.requests(m, s, c)
			return
		}
	}
}

// requests takes a call through the HTTP filters of a server.
func (a *arrival) requests(m *hcmv3.HttpConnectionManager, s Server, c call) {
	c.Path = pathAt(m, c.Path)
	for _, f := range m.HttpFilters {
		switch p := unpack(f.GetTypedConfig()).(type) {
		case *jwtv3.JwtAuthentication:
			said := authenticate(p, c.Request)
			if said.text != "" {
				a.steps = append(a.steps, Step{Kind: "server policy", Name: f.Name, Text: said.text, Unmade: notTraced})
			}
			if said.status != 0 {
				a.end.Status, a.end.By, a.end.Reason = said.status, "the server's proxy", said.text
				return
			}
			if c.token = said.token; said.unless != "" {
				a.unless = append(a.unless, said.unless)
			}
		case *httprbacv3.RBAC:
			if a.policy(s, p.Rules, c) {
				a.end.Status, a.end.By = 403, "the server's proxy"
				return
			}
		default:
			if strings.HasPrefix(f.Name, "envoy.filters.http.ext_authz") {
				a.unless = append(a.unless, f.Name)
			}
		}
	}
}

// policy adds what a filter of policies says, and reports whether it refuses.
func (a *arrival) policy(s Server, r *rbacv3.RBAC, c call) bool {
	refuses, name, passed, unjudged := refused(r, c)
	for i := range passed {
		passed[i].Origins = s.Origins(Part{Policy: passed[i].Name})
	}
	step, reason := verdictOf(refuses, name, s.Origins, passed, unjudged, "server")
	if refuses {
		a.end.Reason = reason
	}
	if step.Text == "" {
		return false
	}
	a.unless = append(a.unless, unjudged...)
	a.steps = append(a.steps, step)
	return refuses
}
