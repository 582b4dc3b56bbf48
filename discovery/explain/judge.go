package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	sniclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_cluster/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Part names a part of what a proxy was sent; fields that are not of it are empty.
type Part struct {
	Routes, Host string // of a virtual host: its route configuration and its name
	Route        int    // its route, counted from 1; 0 for the virtual host itself
	Cluster      string
	Endpoint     string                  // of the cluster, its address with port
	TLS          bool                    // of the cluster: what chose how it begins connections
	Port         uint32                  // of a server: what chose which connections it takes
	Policy       string                  // of a server: the name of a rule in its filters
	Listener     string                  // for outbound traffic
	Chain        *listenerv3.FilterChain // of the listener
	Name         string                  // whose address DNS of the proxy has
}

// Made is which objects made a part. Where none did, Unmade says why.
type Made struct {
	By     []Place
	More   int
	Unmade string
}

// Judge says what becomes of a request at a proxy that was sent these resources. origins tells which objects made a part; nil if that is not known.
func Judge(s Served, r Request, origins func(Part) Made) Answer {
	if origins == nil {
		origins = func(Part) Made { return Made{} }
	}
	j := &judge{served: s, origins: origins, bytes: r.TCP}
	j.connect(r)
	return Answer{Steps: j.steps, Outcomes: j.outcomes}
}

type judge struct {
	served   Served
	origins  func(Part) Made
	steps    []Step
	outcomes []Outcome
	unjudged []string // filters on the way that may answer
	bytes    bool     // the program sends no HTTP
	grpc     bool     // it is answered as a client of gRPC
	secure   bool     // the connection is TLS, which the proxy ends
	token    token    // that a filter has found
	route    Made     // of the route
	delay    *Delay   // that a filter has added
}

// tlsOrigins returns the objects that chose how a cluster begins connections.
func (j *judge) tlsOrigins(cluster string) []Place {
	return j.origins(Part{Cluster: cluster, TLS: true}).By
}

func (j *judge) step(s Step) { j.steps = append(j.steps, s) }

// pass adds a step with what made a part.
func (j *judge) pass(s Step, made Made) {
	s.Origins, s.More, s.Unmade = made.By, made.More, made.Unmade
	j.step(s)
}

// Why no object made a step.
const (
	notThere  = "no object makes one"
	notTraced = "explain does not know which object made it"
)

func (j *judge) end(o Outcome) {
	o.Unless, o.Delay = slices.Clone(j.unjudged), j.delay
	if j.grpc && o.Status != 0 {
		o.Status, o.GRPC = 200, cmp.Or(o.GRPC, toGRPC(o.Status))
	}
	j.outcomes = append(j.outcomes, o)
}

// skip adds a filter that explain does not judge.
func (j *judge) skip(name string) {
	j.step(Step{Kind: "filter", Name: name, Text: "explain does not judge it", Unmade: notTraced})
	j.unjudged = append(j.unjudged, name)
}

// connect finds the listener and the filter chain.
func (j *judge) connect(r Request) {
	l, accepted := listenerFor(j.served.Listeners, r.To)
	if l == nil {
		j.step(Step{Kind: "listener", Text: fmt.Sprintf("no listener of the proxy has %s: the connection does not pass the proxy", r.To), Unmade: notThere})
		j.end(Outcome{Share: 1, Reason: fmt.Sprintf("the proxy does not see it: it goes to %s as the program sends it", r.To)})
		return
	}
	text := ""
	if accepted != nil {
		text = "to which " + accepted.Name + " passes the intercepted connection"
	}
	made := j.origins(Part{Listener: l.Name})
	j.pass(Step{Kind: "listener", Name: l.Name, Text: text}, made)
	c := connectionOf(l, r)
	chain := chainFor(l, c)
	if chain == nil {
		j.pass(Step{Kind: "filter chain", Text: "none matches"}, made)
		j.end(Outcome{Share: 1, Closed: true, Flag: "NR", Reason: "the connection is closed: no filter chain matches"})
		return
	}
	j.chain(l, chain, c, r)
}

func (j *judge) chain(l *listenerv3.Listener, chain *listenerv3.FilterChain, c connection, r Request) {
	text := "for " + c.transport
	if len(c.protocols) > 0 {
		text += " in which " + strings.Join(c.protocols, ", ") + " is detected"
	}
	if chain == l.DefaultFilterChain && len(l.FilterChains) > 0 {
		text = "the default, since no other matches"
	}
	made := j.origins(Part{Listener: l.Name, Chain: chain})
	if chain.TransportSocket != nil && !j.handshake(chain, made, r) {
		return
	}
	j.secure, r.ended = chain.TransportSocket != nil, chain.TransportSocket != nil
	r.TLS = r.TLS && !r.ended
	sni := "" // the cluster that the server name is, if a filter takes it for one
	for _, f := range chain.Filters {
		switch m := unpack(f.GetTypedConfig()).(type) {
		case *hcmv3.HttpConnectionManager:
			j.pass(Step{Kind: "filter chain", Name: chain.Name, Text: text + ": HTTP"}, made)
			if r.TCP || r.TLS {
				j.end(Outcome{Share: 1, Status: 400, Flag: "DPE", Reason: "it wants HTTP, and closes the connection"})
				return
			}
			j.http(m, r)
			return
		case *tcpproxyv3.TcpProxy:
			j.pass(Step{Kind: "filter chain", Name: chain.Name, Text: text + ": bytes, whatever they are"}, made)
			j.tcp(m, sni, r)
			return
		case *sniclusterv3.SniCluster:
			sni = c.server
		default:
			j.skip(f.Name)
		}
	}
	j.end(Outcome{Share: 1, Reason: "no filter of the chain leads anywhere that explain knows"})
}

// handshake reports whether the program begins the TLS that a chain wants.
func (j *judge) handshake(chain *listenerv3.FilterChain, made Made, r Request) bool {
	if !r.TLS {
		j.pass(Step{Kind: "filter chain", Name: chain.Name, Text: "wants TLS"}, made)
		j.end(Outcome{Share: 1, Closed: true, Reason: "the connection is closed: the program begins no TLS"})
		return false
	}
	if t, ok := unpack(chain.TransportSocket.GetTypedConfig()).(*tlsv3.DownstreamTlsContext); ok && t.GetRequireClientCertificate().GetValue() {
		j.unjudged = append(j.unjudged, clientCertificate)
	}
	return true
}

// clientCertificate is a reason to refuse that explain does not judge.
const clientCertificate = "a check of the client's certificate"

// tcp finds the cluster of a connection: sni if it is not "".
func (j *judge) tcp(m *tcpproxyv3.TcpProxy, sni string, r Request) {
	r.TCP = true // the proxy does not read what the bytes are, so it cannot answer
	if name := cmp.Or(sni, m.GetCluster()); name != "" {
		j.cluster(name, 1, Outcome{}, r)
		return
	}
	all := m.GetWeightedClusters().GetClusters()
	total := 0.0
	for _, c := range all {
		total += float64(c.Weight)
	}
	for _, c := range all {
		j.cluster(c.Name, float64(c.Weight)/total, Outcome{}, r)
	}
	if len(all) == 0 {
		j.end(Outcome{Share: 1, Reason: fmt.Sprintf("explain does not judge a destination by %T", m.ClusterSpecifier)})
	}
}

// http finds the virtual host and the route.
func (j *judge) http(m *hcmv3.HttpConnectionManager, r Request) {
	r = r.normal(m.StripTrailingHostDot)
	r.scheme = r.schemeAt(m)
	j.grpc = r.isGRPC()
	r.Path = pathAt(m, r.Path)
	config := m.GetRouteConfig()
	if name := m.GetRds().GetRouteConfigName(); name != "" {
		i := slices.IndexFunc(j.served.Routes, func(c *routev3.RouteConfiguration) bool { return c.Name == name })
		if i < 0 {
			j.step(Step{Kind: "virtual host", Text: "the route configuration " + name + " is not there", Unmade: notThere})
			j.end(Outcome{Share: 1, Status: 404, Flag: "NR", Reason: "the proxy has no routes " + name})
			return
		}
		config = j.served.Routes[i]
	}
	host, domain := hostFor(config, r.Host)
	if host == nil {
		j.step(Step{Kind: "virtual host", Text: fmt.Sprintf("none of routes %s has the host %s", config.GetName(), r.Host), Unmade: notThere})
		j.end(Outcome{Share: 1, Status: 404, Flag: "NR", Reason: "no virtual host has the host " + r.Host})
		return
	}
	made := j.origins(Part{Routes: config.GetName(), Host: host.Name})
	j.pass(Step{Kind: "virtual host", Name: host.Name, Text: fmt.Sprintf("of routes %s, by the domain %s", config.GetName(), domain)}, made)
	if host.RequireTls == routev3.VirtualHost_ALL && r.scheme != "https" {
		j.end(Outcome{Share: 1, Status: 301, Reason: "the host wants HTTPS: the proxy redirects to it"})
		return
	}
	j.routes(m, config.GetName(), host, made, r)
}

func (j *judge) routes(m *hcmv3.HttpConnectionManager, config string, host *routev3.VirtualHost, by Made, r Request) {
	var passed []Passed
	for i, route := range host.Routes {
		made := j.origins(Part{Routes: config, Host: host.Name, Route: i + 1})
		if reason := mismatch(route.GetMatch(), r); reason != "" {
			passed = append(passed, Passed{Name: nameOf(route, i), Reason: reason, Origins: made.By})
			continue
		}
		if len(made.By) == 0 && made.Unmade == "" {
			made = by // the route is the virtual host's own
		}
		j.pass(Step{Kind: "route", Name: nameOf(route, i), Text: inForce(route), Passed: passed}, made)
		j.route = made
		j.filters(m, host, route, r)
		return
	}
	j.pass(Step{Kind: "route", Text: "none matches", Passed: passed}, by)
	j.end(Outcome{Share: 1, Status: 404, Flag: "NR", Reason: "no route of the virtual host matches"})
}

func nameOf(r *routev3.Route, i int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", i+1, r.Name))
}

// unpack returns the message of an Any; nil if its type is not linked.
func unpack(a *anypb.Any) proto.Message {
	if a == nil {
		return nil
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return nil
	}
	return m
}

// Served is what a proxy was sent.
type Served struct {
	Cluster   func(name string) (*clusterv3.Cluster, *endpointv3.ClusterLoadAssignment) // nil for none; endpoints are those that are sent apart
	Listeners []*listenerv3.Listener
	Routes    []*routev3.RouteConfiguration

	Server func(cluster, address string) Server // the proxy of an endpoint; nil if servers are not judged
	Client Client                               // what servers learn of this proxy
}

// Answer says what becomes of a request.
type Answer struct {
	Steps    []Step    `json:"steps"`
	Outcomes []Outcome `json:"outcomes"` // their shares add up to 1
}

// Step is a part of the configuration that the request passes.
type Step struct {
	Kind    string   `json:"kind"` // "listener", "filter chain", "virtual host", "route", "filter", "cluster", "endpoint", "server", "server policy"
	Name    string   `json:"name,omitempty"`
	Text    string   `json:"text,omitempty"`
	Origins []Place  `json:"origins,omitempty"` // the objects that made it
	More    int      `json:"more,omitempty"`    // services that made it, too, and are not named
	Unmade  string   `json:"unmade,omitempty"`  // why no object did
	Passed  []Passed `json:"passed,omitempty"`  // what was looked at before, and did not match
}

// Passed is a part that did not match, with the first condition that does not hold.
type Passed struct {
	Name    string  `json:"name"`
	Reason  string  `json:"reason"`
	Origins []Place `json:"origins,omitempty"`
}

// Place is an object, or a field of one, and where it is.
type Place struct {
	Object string `json:"object"`         // "VirtualService shop/reviews"
	Path   string `json:"path,omitempty"` // "spec.http[1].match[0]"
	At     string `json:"at,omitempty"`   // "mesh.yaml:12", or the record of a registry
}

// Outcome is what becomes of a share of such requests.
type Outcome struct {
	Share float64 `json:"share"` // more than 0, at most 1

	// Status is what a proxy itself answers; 0 if a server answers, or nobody does. To a request of gRPC that is 200, and GRPC says which error.
	Status int    `json:"status,omitempty"`
	GRPC   string `json:"grpcStatus,omitempty"` // the number that the answer has as grpc-status
	By     string `json:"by,omitempty"`         // "the server's proxy"; "" for the client's
	Flag   string `json:"flag,omitempty"`       // Envoy's response flag: "NR", "NC", "UH", "FI"
	Closed bool   `json:"closed,omitempty"`     // the connection, without an answer
	Reason string `json:"reason"`

	// Unless are the filters on the way that explain does not judge: one of them, such as that of a policy, may answer before.
	Unless []string `json:"unless,omitempty"`

	// Of a request that is sent on.
	Cluster   string     `json:"cluster,omitempty"`
	Host      string     `json:"host,omitempty"` // the authority and the path that the server gets
	Path      string     `json:"path,omitempty"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Resolved  bool       `json:"resolved,omitempty"` // Envoy finds the endpoints itself: by DNS, or the original destination
	Limits
	Delay *Delay `json:"delay,omitempty"` // that a fault adds; nil for none
}

// Endpoint is a server that may get the request.
type Endpoint struct {
	Address  string  `json:"address"`
	Health   string  `json:"health"`
	Locality string  `json:"locality,omitempty"`
	Priority uint32  `json:"priority"`
	TLS      string  `json:"tls"`
	Origins  []Place `json:"origins,omitempty"`

	hello clientHello
}

// Text returns the road in lines, its end last. Parts of them are the choice of tenants, as an endpoint's locality is: none leaves its line.
func (r Road) Text() string {
	var b strings.Builder
	line := func(kind, format string, args ...any) {
		b.WriteString(model.OneLine(strings.TrimRight(fmt.Sprintf("%-13s %s", kind, fmt.Sprintf(format, args...)), " ")) + "\n")
	}
	line("from", "%s", r.title())
	line("to", "%s at %s", r.To, r.At)
	step := func(s Step) {
		for _, p := range s.Passed {
			line("not "+s.Kind, "%s: %s%s", p.Name, p.Reason, by(p.Origins))
		}
		text := s.Text
		if s.Name != "" && text != "" {
			text = ": " + text
		}
		from := by(s.Origins)
		if s.More > 0 {
			from = fmt.Sprintf("%s; %d more]", strings.TrimSuffix(from, "]"), s.More)
		}
		if s.Unmade != "" && s.Unmade != notThere { // the text says that one
			from = " [no object: " + s.Unmade + "]"
		}
		line(s.Kind, "%s%s%s", s.Name, text, from)
	}
	atServer := func(s Step) bool { return strings.HasPrefix(s.Kind, "server") }
	for _, s := range r.Steps {
		if !atServer(s) {
			step(s)
		}
	}
	for _, o := range r.Outcomes {
		for _, e := range o.Endpoints {
			where := ""
			if e.Locality != "" {
				where = " in " + e.Locality
			}
			line("endpoint", "%s: %s%s, priority %d, %s%s", e.Address, e.Health, where, e.Priority, e.TLS, by(e.Origins))
		}
	}
	for _, s := range r.Steps {
		if atServer(s) {
			step(s)
		}
	}
	for _, o := range r.Outcomes {
		text := o.text()
		if len(o.Unless) > 0 {
			text += "; unless it is refused by " + strings.Join(o.Unless, ", ")
		}
		line("outcome", "%s", text)
	}
	return b.String()
}

// text says an outcome in a line.
func (o Outcome) text() string {
	out := ""
	if o.Share < 1 {
		out = percent(o.Share) + ": "
	}
	if o.Status != 0 {
		out += fmt.Sprint(o.Status)
		if o.GRPC != "" {
			out += " with grpc-status " + o.GRPC
		}
		out += " from " + cmp.Or(o.By, "the proxy")
		if o.Flag != "" {
			out += " (" + o.Flag + ")"
		}
		return out + ": " + o.Reason
	}
	out += o.Reason
	if o.Cluster != "" {
		out += ", of " + o.Cluster
	}
	if o.Path != "" {
		out += fmt.Sprintf("; it gets %s of %s", o.Path, o.Host)
	}
	return out
}

// by says where the objects are that made a part.
func by(places []Place) string {
	var out []string
	for _, p := range places {
		text := p.Object
		if p.Path != "" {
			text += " " + p.Path
		}
		if p.At != "" {
			text += " at " + p.At
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return " [" + strings.Join(out, "; ") + "]"
}
