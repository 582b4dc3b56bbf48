package ingress

import (
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// objectName is the prefix of the names of objects that are made here: no object of Kubernetes has a tilde in its name.
const objectName = "ingress~"

// plainName is the name of the HTTP Gateway of a namespace: no host has a tilde in its name.
const plainName = "http~"

// output sends the objects of a host: its VirtualService, and the Gateway of its certificate.
func (t *Table) output(name string, out map[string]model.Group) {
	var rule, server *model.Object
	waits := false
	if h := t.get(name); h != nil {
		t.translated++
		if routes := t.routes(h); h.routed && len(routes) > 0 {
			waits = len(t.servers(h, t.index.unread[h.owner.Namespace])) > 0
			rule = t.object(h.owner, "VirtualService", name, &networking.VirtualService{
				Hosts: []string{name}, ExportTo: []string{t.options.Proxies}, Gateways: t.gateways(h), Http: routes,
			})
		}
		if h.good {
			server = t.object(h.owner, "Gateway", name, t.gateway(&networking.Server{
				Port:  &networking.Port{Number: t.options.HTTPS, Protocol: "HTTPS", Name: "https"},
				Hosts: []string{h.owner.Namespace + "/" + name},
				Tls:   &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: Credential(*h.secret)},
			}))
		}
	}
	t.move("VirtualService "+name, rule, waits, out)
	t.move("Gateway "+name, server, false, out)
}

// plain sends the Gateway of HTTP of a namespace, with the oldest Ingress of its hosts as its origin.
func (t *Table) plain(namespace string, out map[string]model.Group) {
	var owner *ingress
	for name := range t.index.routed[namespace] {
		if h := t.hosts[name]; owner == nil || h.owner.older(owner) < 0 {
			owner = h.owner
		}
	}
	var server *model.Object
	if owner != nil {
		server = t.object(owner, "Gateway", plainName, t.gateway(&networking.Server{
			Port:  &networking.Port{Number: t.options.HTTP, Protocol: "HTTP", Name: "http"},
			Hosts: []string{namespace + "/*"},
		}))
	}
	t.move("namespace "+namespace, server, false, out)
}

func (t *Table) gateway(server *networking.Server) *networking.Gateway {
	return &networking.Gateway{Selector: t.options.Selector, Servers: []*networking.Server{server}}
}

// object returns an object that is made from an Ingress, with its origin.
func (t *Table) object(of *ingress, kind, name string, spec proto.Message) *model.Object {
	o := &model.Object{Meta: model.Meta{
		Kind: kind, Namespace: of.Namespace, Name: objectName + name, Created: of.CreationTimestamp.Time, Origin: of.at,
		WholeHosts: true,
	}, Spec: spec}
	if was := t.sent[o.Key()]; len(was.Objects) > 0 && proto.Equal(was.Objects[0].Spec.(proto.Message), spec) {
		o.Spec = was.Objects[0].Spec // the same message, so that resources made from it can be reused
	}
	return o
}

// move sends the object of a part, nil for none, which may wait: its key changes with the namespace to which a host belongs.
func (t *Table) move(part string, o *model.Object, waits bool, out map[string]model.Group) {
	key := ""
	if o != nil {
		key = o.Key()
	}
	if was := t.keys[part]; was != "" && was != key {
		t.emit(was, model.Group{}, out)
	}
	if t.keys[part] = key; o == nil {
		delete(t.keys, part)
		return
	}
	t.emit(key, model.Group{Objects: []*model.Object{o}, Waits: waits}, out)
}

// routes returns the routes of a host: its own, and those of the rules without a host that apply to it.
func (t *Table) routes(h *host) []*networking.HTTPRoute {
	routes := h.routes(h.name)
	if rest := t.get(anyHost); rest != nil && isWildcard(h.name) {
		routes = append(routes, rest.routes(anyHost)...) // the wildcard's paths do not match hosts with more labels
	} else if rest != nil && rest != h && rest.fallback != nil {
		routes = append(routes, rest.fallback.all(h.name))
	}
	return routes
}

// routes returns the routes of a host's own paths and of its default backend.
func (h *host) routes(of string) (out []*networking.HTTPRoute) {
	for _, p := range h.paths {
		out = append(out, p.all(of))
	}
	if h.fallback != nil && !slices.ContainsFunc(h.paths, func(p path) bool { return !p.exact && p.text == "" }) {
		out = append(out, h.fallback.all(of))
	}
	return out
}

// all returns the route of a path for a host.
func (p path) all(host string) *networking.HTTPRoute {
	return &networking.HTTPRoute{
		Name: p.ingress.name().String() + "." + p.path, Match: p.matches(host), Route: p.route.Route, DirectResponse: p.route.DirectResponse,
	}
}

// gateways returns the names of the Gateways at which a host is served.
func (t *Table) gateways(h *host) []string {
	namespace := h.owner.Namespace
	out := []string{namespace + "/" + objectName + plainName}
	for _, name := range t.servers(h, t.index.encrypted[namespace]) {
		out = append(out, namespace+"/"+objectName+name)
	}
	return out
}

// servers returns those of a set of hosts with certificates under which the rules of a host route requests.
func (t *Table) servers(h *host, all map[string]bool) (servers []string) {
	add := func(name string) {
		if all[name] && t.under(h, t.hosts[name]) {
			servers = append(servers, name)
		}
	}
	switch {
	case h.name == anyHost:
		for name := range all {
			add(name)
		}
	default:
		for below := range t.index.below[h.name] {
			add(below)
		}
		add(h.name)
		add(anyHost)
		add(above(h.name))
	}
	slices.Sort(servers)
	return servers
}

// under reports whether the rules of h route requests to the host of a certificate: there are no more specific rules
// for them.
func (t *Table) under(h, server *host) bool {
	switch {
	case h == server:
		return true
	case server.name == anyHost, isWildcard(server.name) && above(h.name) == server.name:
		return true // h is below it
	case server.routed:
		return false // it has rules of its own
	case h.name == anyHost:
		wildcard := t.get(above(server.name))
		return wildcard == nil || !wildcard.routed || wildcard.owner.Namespace != h.owner.Namespace
	default:
		return above(server.name) == h.name
	}
}
