package ingress

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// pathMatch is a path by which requests are compared.
type pathMatch struct {
	exact bool
	text  string
}

// host is one host with the rules and certificates of all Ingresses for it. It is immutable.
type host struct {
	name     string
	owner    *ingress // the oldest that names it; nil if all that do so are of the wrong namespace
	paths    []path   // in the order of Kubernetes
	fallback *path    // for requests that match no path; nil for none
	routed   bool     // a rule names it, not a certificate alone
	secret   *Name    // of its certificate; nil for none
	good     bool     // the certificate can be served
	unread   bool     // whether it can is not known yet

	faults map[*ingress][]fault
}

// get returns a host that belongs to a namespace, or nil.
func (t *Table) get(name string) *host {
	if h := t.hosts[name]; h != nil && h.owner != nil {
		return h
	}
	return nil
}

// owner returns the oldest Ingress that names a wildcard, nil for none.
func (t *Table) ownerOf(wildcard string) *ingress { return first(t.index.hosts[wildcard]) }

// passOwners marks the hosts below wildcards whose owner has changed.
func (t *Table) passOwners() {
	for name := range t.pending.hosts {
		if !isWildcard(name) {
			continue
		}
		var was *ingress
		if h := t.hosts[name]; h != nil {
			was = h.owner
		}
		is := t.ownerOf(name)
		if was == is || was != nil && is != nil && was.older(is) == 0 {
			continue
		}
		for below := range t.index.below[name] {
			t.pending.hosts[below] = true
		}
	}
}

// replace translates a host again, and marks what depends on it.
func (t *Table) replace(name string) {
	was := t.hosts[name]
	var is *host
	if t.hosts[name] = nil; len(t.index.hosts[name]) > 0 {
		is = t.translate(name)
		t.hosts[name] = is
	} else {
		delete(t.hosts, name)
	}
	t.pending.outputs[name] = true
	for _, h := range []*host{was, is} {
		if h == nil {
			continue
		}
		for i := range h.faults {
			if was == nil || is == nil || !slices.Equal(was.faults[i], is.faults[i]) {
				t.pending.faults[i.name()] = true
			}
		}
	}
	t.recordUse(name, was, is)
	a, b := shapeOf(was), shapeOf(is)
	switch {
	case name == anyHost && (a != b || !slices.EqualFunc(restOf(was), restOf(is), func(a, b *networking.HTTPRoute) bool { return proto.Equal(a, b) })):
		for other := range t.hosts {
			t.pending.outputs[other] = true
		}
	case a != b:
		t.pending.outputs[anyHost], t.pending.outputs[above(name)] = true, true
		for below := range t.index.below[name] {
			t.pending.outputs[below] = true
		}
	}
}

// shape is the part of a host on which the Gateways of other hosts depend.
type shape struct {
	namespace    string // to which it belongs, "" for none
	routed, good bool
	unread       bool
}

func shapeOf(h *host) shape {
	if h == nil || h.owner == nil {
		return shape{}
	}
	return shape{h.owner.Namespace, h.routed, h.good, h.unread}
}

// recordUse records in the index what a host is, in the place of what it was.
func (t *Table) recordUse(name string, was, is *host) {
	for _, h := range []*host{was, is} {
		if h == nil || h.owner == nil {
			continue
		}
		namespace := h.owner.Namespace
		if h.routed {
			set(t.index.routed, namespace, name, h == is)
			t.pending.namespaces[namespace] = true
		}
		if h.good {
			set(t.index.encrypted, namespace, name, h == is)
		}
		if h.unread {
			set(t.index.unread, namespace, name, h == is)
		}
		if h.secret != nil {
			t.count(*h.secret, h == is)
		}
	}
}

// count adds a host to those that have a Secret, or removes one.
func (t *Table) count(secret Name, is bool) {
	n := t.wanted[secret]
	switch {
	case is:
		t.wanted[secret] = n + 1
	case n > 1:
		t.wanted[secret] = n - 1
	default:
		delete(t.wanted, secret)
	}
	if is == (n == 0) || n == 1 {
		t.names = nil
	}
}

// restOf returns the routes that the rules without a host give to other hosts.
func restOf(h *host) (out []*networking.HTTPRoute) {
	if h == nil || h.owner == nil {
		return nil
	}
	if out = h.routes(anyHost); h.fallback != nil {
		out = append(out, h.fallback.all(anyHost))
	}
	return out
}

// translate makes a host of the Ingresses that name it.
func (t *Table) translate(name string) *host {
	t.translated++
	h := &host{name: name, faults: map[*ingress][]fault{}}
	places := map[pathMatch]path{} // the paths that are taken
	for _, i := range t.index.hosts[name] {
		p := i.parts[name]
		if other := t.denied(h, i); other != nil {
			for _, c := range p.claims {
				h.fault(i, c.field, "is %q, which belongs to namespace %s: Ingress %s named it, or a wildcard for it, before", c.written, other.Namespace, other.name())
			}
			continue
		}
		h.owner, h.routed = cmp.Or(h.owner, i), h.routed || p.routed
		for _, one := range p.paths {
			key := pathMatch{one.exact, one.text}
			if first, taken := places[key]; taken {
				h.fault(i, field{one.order, one.path + ".path"}, "%q of %s is not served: Ingress %s has it in %s", one.written, h.name, first.ingress.name(), first.path)
				continue
			}
			places[key] = one
			var wrong *fault
			if one.route, wrong = t.route(i.Namespace, one.backend); wrong != nil {
				h.faults[i] = append(h.faults[i], fault{order: one.order, path: one.path + ".backend" + wrong.path, text: wrong.text, missing: wrong.missing})
			}
			h.paths = append(h.paths, one)
		}
		t.joinDefault(h, i, p.fallback)
		for _, c := range p.certificates {
			t.joinCertificate(h, i, c)
		}
	}
	inOrder(h.paths)
	return h
}

// denied returns the Ingress of another namespace to which a host belongs, nil if it belongs to that of i.
func (t *Table) denied(h *host, i *ingress) *ingress {
	if h.owner != nil && h.owner.Namespace != i.Namespace {
		return h.owner
	}
	if w := t.ownerOf(above(h.name)); w != nil && w.Namespace != i.Namespace && w.older(i) < 0 {
		return w
	}
	return nil
}

func (t *Table) joinDefault(h *host, i *ingress, p *path) {
	if p == nil {
		return
	}
	if h.fallback != nil {
		h.fault(i, p.field, "is not served for %s: Ingress %s has one", h.name, h.fallback.ingress.name())
		return
	}
	one := *p
	one.route, _ = t.route(i.Namespace, p.backend)
	h.fallback = &one
}

func (t *Table) joinCertificate(h *host, i *ingress, c certificate) {
	if h.secret != nil && *h.secret != c.secret {
		h.fault(i, c.field, "is not served for %s: Secret %s is, which an older Ingress or an earlier item names", h.name, *h.secret)
		return
	}
	wrong, looked := t.secrets[c.secret]
	h.secret, h.good, h.unread = &c.secret, looked && wrong == "", !looked
	if wrong != "" {
		h.fault(i, c.field, "names Secret %s, which %s; %s is served without TLS", c.secret, wrong, h.name)
	}
}

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

// route returns the route to a backend. If the backend does not exist, requests are answered with 503, and wrong gives
// the reason, with its path below the backend.
func (t *Table) route(namespace string, b *networkingv1.IngressBackend) (out *networking.HTTPRoute, wrong *fault) {
	port, wrong := t.port(namespace, b)
	if wrong != nil {
		wrong.text += ", answered with 503"
		return &networking.HTTPRoute{DirectResponse: &networking.HTTPDirectResponse{Status: 503}}, wrong
	}
	return &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{
		Host: t.options.Domain.Host(b.Service.Name, namespace), Port: &networking.PortSelector{Number: port},
	}}}}, nil
}

// port returns the number of a backend's port.
func (t *Table) port(namespace string, b *networkingv1.IngressBackend) (number uint32, wrong *fault) {
	fault := func(path, format string, args ...any) (uint32, *fault) {
		return 0, &fault{path: path, text: fmt.Sprintf(format, args...)}
	}
	switch {
	case b.Resource != nil:
		return fault(".resource", "%s %s is no Service, and is not served", b.Resource.Kind, b.Resource.Name)
	case b.Service == nil:
		return fault(".service", "is missing")
	}
	forms := t.services[Name{namespace, b.Service.Name}]
	if len(forms) == 0 {
		_, wrong = fault(".service.name", "is %q, which is no Service of namespace %s", b.Service.Name, namespace)
		wrong.missing = true
		return 0, wrong
	}
	want := b.Service.Port
	for _, form := range forms {
		i := slices.IndexFunc(form.ports, func(p corev1.ServicePort) bool {
			return want.Name != "" && p.Name == want.Name || want.Name == "" && p.Port == want.Number
		})
		if i >= 0 {
			return uint32(form.ports[i].Port), nil
		}
	}
	if want.Name != "" {
		return fault(".service.port.name", "is %q, which is no port of Service %s", want.Name, b.Service.Name)
	}
	return fault(".service.port.number", "is %d, which is no port of Service %s", want.Number, b.Service.Name)
}
