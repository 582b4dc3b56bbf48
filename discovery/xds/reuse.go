package xds

import (
	"cmp"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// servicePart is a port of a service at a listener, from which filter chains are made when the listener is built.
type servicePart struct {
	service *model.Service
	port    uint32
	rule    *networking.VirtualService // nil if it has no routes for connections
	subnets []string                   // the addresses of the service, if the listener has those of others too
	tls     bool                       // its connections are told by their server name
}

func (l *outboundListener) add(s *model.Service, p model.Port, rule *networking.VirtualService, subnets []string) {
	if len(rule.GetTcp()) == 0 {
		rule = nil
	}
	l.parts = append(l.parts, servicePart{s, p.Number, rule, subnets, false})
}

func (l *outboundListener) addTLS(s *model.Service, p model.Port, rule *networking.VirtualService) {
	if len(rule.GetTls()) == 0 {
		rule = nil
	}
	l.parts = append(l.parts, servicePart{s, p.Number, rule, nil, true})
}

// translate adds the filter chains of a part to its listener.
func (part servicePart) translate(ls *outboundListeners, l *outboundListener) {
	r := router{scope: ls.scope, gateway: model.MeshGateway, port: part.port}
	if part.tls {
		l.chains = append(l.chains, r.tlsChains(ls.seen, part.service, part.rule, ls.view.Domain)...)
	} else {
		l.addTCP(r.tcpChains(ls.seen, part.service, part.rule, part.subnets))
	}
}

// plainPart holds all inputs of the filter chains of a part without a rule.
type plainPart struct {
	host    string
	leads   string // the host of the service to which the scope leads requests for host
	policy  *networking.DestinationRule
	port    uint32
	subnets []string
	tls     bool
}

func (p plainPart) same(other plainPart) bool {
	return p.host == other.host && p.leads == other.leads && p.port == other.port && p.tls == other.tls &&
		slices.Equal(p.subnets, other.subnets) && model.SamePolicy(p.policy, other.policy)
}

// plain returns the inputs of a part; false if it has others, which are those of a rule and of other names.
func (part servicePart) plain(scope *model.Scope) (plainPart, bool) {
	if part.rule != nil || part.tls && len(part.service.Aliases) > 0 {
		return plainPart{}, false
	}
	out := plainPart{host: part.service.Host, port: part.port, subnets: part.subnets, tls: part.tls}
	if s := scope.Service(out.host); s != nil {
		out.leads, out.policy = s.Host, scope.DestinationRule(s)
	}
	return out, true
}

// listened holds the listeners of a build in their order, and the inputs that all of them have.
type listened struct {
	ground ground
	all    []*keptListener
}

// keptListeners are those of an earlier build, or of a sibling's.
type keptListeners struct {
	all    []*keptListener
	at     int            // where the next one is expected: the order is that of services, and hardly changes
	places map[string]int // by name; nil until one was not found where it was expected
}

func (k *keptListeners) find(name string) *keptListener {
	for i := k.at; i < len(k.all) && i < k.at+2; i++ { // one of them may be gone
		if k.all[i].made.Name == name {
			k.at = i + 1
			return k.all[i]
		}
	}
	if k.places == nil {
		k.places = make(map[string]int, len(k.all))
		for i, l := range k.all {
			k.places[l.made.Name] = i
		}
	}
	i, found := k.places[name]
	if !found {
		return nil
	}
	k.at = i + 1
	return k.all[i]
}

// ground holds the inputs of every listener of a view.
type ground struct {
	settings model.Settings
	seen     observed
	unknown  string // the cluster of connections to unknown destinations
	family   Family
}

func (g ground) same(other ground) bool {
	return g.settings == other.settings && g.unknown == other.unknown && g.family == other.family && g.seen.same(other.seen)
}

// same reports whether the two make equal filters.
func (o observed) same(other observed) bool {
	return o.paths == other.paths && o.http10 == other.http10 && o.marks == other.marks && o.reports.by == other.reports.by &&
		o.reports.what == other.reports.what && proto.Equal(o.tracing, other.tracing) &&
		slices.EqualFunc(o.logs, other.logs, func(a, b *accesslogv3.AccessLog) bool { return proto.Equal(a, b) })
}

// keptListener is a listener with its inputs. Views with the same inputs share it.
type keptListener struct {
	bind, sniff bool
	http        string
	ranges      []string
	kept        []string
	parts       []plainPart
	made        *listenerv3.Listener
}

func (k *keptListener) same(other *keptListener) bool {
	return k.bind == other.bind && k.sniff == other.sniff && k.http == other.http && slices.Equal(k.ranges, other.ranges) && slices.Equal(k.kept, other.kept) &&
		slices.EqualFunc(k.parts, other.parts, plainPart.same)
}

// listen prepares the reuse of listeners: only those of last and of sibling with the same ground can be reused.
func (b *builder) listen(ls *outboundListeners) {
	b.out.listened.ground = ground{ls.scope.Settings(), ls.seen, unknownCluster(ls.scope), ls.view.Family}
	for _, r := range []*Resources{b.last, b.sibling} {
		if r != nil && len(r.listened.all) > 0 && r.listened.ground.same(b.out.listened.ground) {
			b.known = append(b.known, &keptListeners{all: r.listened.all})
		}
	}
}

// listener returns a listener: that of last or of sibling if all inputs are the same.
func (b *builder) listener(ls *outboundListeners, l *outboundListener) *listenerv3.Listener {
	now := &keptListener{bind: l.bind, sniff: l.sniff, http: l.http, ranges: slices.Clone(l.ranges), kept: slices.Clone(l.kept)}
	for _, part := range l.parts {
		p, plain := part.plain(b.scope)
		if !plain {
			b.out.made.listeners++
			return ls.build(l)
		}
		now.parts = append(now.parts, p)
	}
	var equal *listenerv3.Listener
	for _, from := range b.known {
		known := from.find(l.name)
		if known == nil {
			continue
		}
		if known.same(now) {
			b.out.listened.all = append(b.out.listened.all, known)
			return known.made
		}
		equal = known.made
	}
	b.out.made.listeners++
	if now.made = ls.build(l); proto.Equal(equal, now.made) {
		now.made = equal
	}
	b.out.listened.all = append(b.out.listened.all, now)
	return now.made
}

// tableGround holds the inputs that all virtual hosts of a route configuration have.
type tableGround struct {
	name     string
	port     uint32 // of the listener
	proxy    bool   // of the listener of the HTTP proxy
	domain   string
	cluster  string // of the proxy
	none     bool   // interception NONE
	settings model.Settings
}

// plainHost is the virtual host of a service without a rule and without other names, with its inputs. Views with the same
// inputs share it.
type plainHost struct {
	plainInputs
	wanted []string // all domains; of made only those that no other virtual host had claimed
	made   *routev3.VirtualHost
}

type plainInputs struct {
	service *model.Service // without endpoints
	leads   *model.Service // the one to which the scope leads requests for its host; without endpoints
	policy  *networking.DestinationRule
	port    uint32
}

func (in plainInputs) same(other plainInputs) bool {
	return in.service == other.service && in.leads == other.leads && in.port == other.port && model.SamePolicy(in.policy, other.policy)
}

// keptHosts holds the virtual hosts of a route configuration of last, and of that of sibling, from which the next one takes
// over what has the same inputs.
type keptHosts struct {
	last, sibling hostsOf
	made          *int
}

// hostsOf holds the virtual hosts of one route configuration.
type hostsOf struct {
	table         *routeTable    // nil if there is none
	usable, alike bool           // the ground is the same; it is, but for the proxy's domain and cluster
	at            int            // the first of hosts that may have the service that comes next
	other         map[string]int // places of those that are not plain, by name
}

// table returns a route configuration, with the virtual hosts of those of last and of sibling as far as their inputs are the same.
func (b *builder) table(ground tableGround, egress int, build func(hostMaker)) *routeTable {
	ground.domain, ground.cluster, ground.none, ground.settings = b.view.Domain, b.view.Cluster, b.view.none(), b.mesh.Settings()
	kept := &keptHosts{b.last.hostsOf(ground), b.sibling.hostsOf(ground), &b.out.made.hosts}
	m := hostMaker{
		scope: b.scope, egress: egress, number: ground.port, domain: ground.domain, cluster: ground.cluster, none: ground.none,
		table: &routeTable{config: newRouteConfig(ground.name), ground: ground}, kept: kept,
	}
	m.claimed = make(map[string]bool, kept.domains())
	m.claimed["*"] = true
	build(m)
	m.table.config.VirtualHosts = append(m.table.config.VirtualHosts, kept.equal(unknownHost(b.scope)))
	for _, from := range []*hostsOf{&kept.last, &kept.sibling} {
		if from.alike && slices.Equal(from.table.config.VirtualHosts, m.table.config.VirtualHosts) {
			m.table.config = from.table.config
			break
		}
	}
	return m.table
}

func (r *Resources) hostsOf(ground tableGround) hostsOf {
	if r == nil {
		return hostsOf{}
	}
	i := slices.IndexFunc(r.tables, func(t *routeTable) bool { return t.config.Name == ground.name })
	if i < 0 {
		return hostsOf{}
	}
	out := hostsOf{table: r.tables[i], other: map[string]int{}}
	was := out.table.ground
	out.usable = was == ground
	was.domain, was.cluster = ground.domain, ground.cluster
	out.alike = was == ground
	for i, host := range out.table.config.VirtualHosts {
		if i >= len(out.table.hosts) || out.table.hosts[i].plain == nil {
			out.other[host.Name] = i
		}
	}
	return out
}

// find returns the virtual host of a service's port, nil if there is none. Hosts must be asked for in their order.
func (k *hostsOf) find(host string, port uint32) *plainHost {
	if k.table == nil {
		return nil
	}
	hosts := k.table.hosts
	for k.at < len(hosts) && (hosts[k.at].plain == nil || hosts[k.at].service.Host < host) {
		k.at++
	}
	for i := k.at; i < len(hosts) && hosts[i].service != nil && hosts[i].service.Host == host; i++ {
		if hosts[i].plain != nil && hosts[i].port == port {
			return hosts[i].plain
		}
	}
	return nil
}

// domains returns about how many domains there will be.
func (k *keptHosts) domains() (n int) {
	if like := cmp.Or(k.last.table, k.sibling.table); like != nil {
		for _, h := range like.config.VirtualHosts {
			n += len(h.Domains)
		}
	}
	return n
}

// equal returns the virtual host of last or sibling that is equal to h, or h.
func (k *keptHosts) equal(h *routev3.VirtualHost) *routev3.VirtualHost {
	if k == nil {
		return h
	}
	for _, from := range []*hostsOf{&k.last, &k.sibling} {
		if at, found := from.other[h.Name]; found && proto.Equal(from.table.config.VirtualHosts[at], h) {
			return from.table.config.VirtualHosts[at]
		}
	}
	return h
}

// recallRuled returns the virtual host of a rule, or of a service with other names, and the answers that its routes were made
// from. If last has it with the same answers and domains, it is that of last.
func (k *keptHosts) recallRuled(h routedHost, name string, domains []string, scope *model.Scope) (*routev3.VirtualHost, *model.Dependencies) {
	if at, found := k.last.other[name]; found && k.last.usable && at < len(k.last.table.hosts) {
		was, made := k.last.table.hosts[at], k.last.table.config.VirtualHosts[at]
		if was.asked != nil && was.service == h.service && was.rule == h.rule && was.port == h.port && slices.Equal(made.Domains, domains) &&
			was.asked.Same(scope) {
			return made, was.asked
		}
	}
	*k.made++
	routes, asked := model.Recorded(scope, h.routes)
	return k.equal(virtualHost(name, domains, routes...)), asked
}

// addPlain adds the virtual host of a port of a service without a rule and without other names.
func (m hostMaker) addPlain(s *model.Service, port uint32, domains func() []string) {
	in := plainInputs{service: s, port: port}
	if leads := m.scope.Service(s.Host); leads != nil {
		in.leads, in.policy = m.scope.WithoutEndpoints(leads), m.scope.DestinationRule(leads)
	}
	h := m.kept.recall(in, domains)
	free := claim(m.claimed, h.wanted)
	if len(free) == 0 {
		return
	}
	if h.made == nil || !slices.Equal(free, h.made.Domains) {
		*m.kept.made++
		routed := routedHost{service: s, port: port}
		made := virtualHost(hostName(s.Host, port), free, routed.routes(m.scope)...)
		h = &plainHost{in, h.wanted, m.kept.equalPlain(made, s.Host, port)}
	}
	m.table.hosts = append(m.table.hosts, routedHost{service: s, port: port, plain: h})
	m.table.config.VirtualHosts = append(m.table.config.VirtualHosts, h.made)
}

// recall returns the virtual host that was made of the same inputs. If there is none, it returns one that has only its domains.
func (k *keptHosts) recall(in plainInputs, domains func() []string) *plainHost {
	if known := k.last.find(in.service.Host, in.port); known != nil && k.last.usable && known.same(in) {
		return known
	}
	wanted := domains()
	if known := k.sibling.find(in.service.Host, in.port); known != nil && k.sibling.alike && known.same(in) &&
		slices.Equal(known.wanted, wanted) {
		return known
	}
	return &plainHost{plainInputs: in, wanted: wanted}
}

// equalPlain does the same as equal for the virtual host of a service's port.
func (k *keptHosts) equalPlain(made *routev3.VirtualHost, host string, port uint32) *routev3.VirtualHost {
	for _, from := range []*hostsOf{&k.last, &k.sibling} {
		if known := from.find(host, port); known != nil && proto.Equal(known.made, made) {
			return known.made
		}
	}
	return k.equal(made)
}
