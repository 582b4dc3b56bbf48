package xds

import (
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
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
