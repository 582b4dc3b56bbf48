package xds

import (
	"cmp"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
