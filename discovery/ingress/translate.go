package ingress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// host is one host with the rules and certificates of all Ingresses for it.
type host struct {
	name     string
	owner    *ingress // the oldest that names it
	paths    []path
	fallback *path // for requests that match no path; nil for none
	routed   bool  // a rule names it, not a certificate alone
	secret   *Name // of its certificate; nil for none

	gateways []string // that it is served at
}

// translation is one call of translate.
type translation struct {
	*Table
	owners owners
	hosts  map[string]*host
	faults map[Name][]string
	wanted map[Name]bool
}

// translate makes all groups again.
func (t *Table) translate() map[string]model.Group {
	w := &translation{t, owners{}, map[string]*host{}, map[Name][]string{}, map[Name]bool{}}
	var all []*ingress
	for _, i := range slices.SortedFunc(maps.Values(t.ingresses), (*ingress).older) {
		ours, fault := t.claim(i)
		if fault != "" {
			w.faultf(i, "%s", fault)
		}
		if ours {
			all = append(all, i)
		}
	}
	t.ours = nil
	for _, i := range all {
		t.ours = append(t.ours, i.name())
		w.read(i)
	}
	w.bind()
	out := map[string]model.Group{}
	for _, name := range slices.Sorted(maps.Keys(w.hosts)) {
		w.serve(w.hosts[name], out)
	}
	w.listen(out)
	for name, faults := range w.faults {
		out["Ingress/"+name.String()] = model.Group{Faults: faults}
	}
	slices.SortFunc(t.ours, Name.compare)
	t.wanted = slices.SortedFunc(maps.Keys(w.wanted), Name.compare)
	return out
}

func (w *translation) faultf(i *ingress, format string, args ...any) {
	w.faults[i.name()] = append(w.faults[i.name()], fmt.Sprintf(format, args...))
}

// named returns a host that an Ingress names, or nil if it is malformed or belongs to another namespace.
func (w *translation) named(i *ingress, written, at string) *host {
	name, fault := readHost(written)
	if fault != "" {
		w.faultf(i, "%s %s", at, fault)
		return nil
	}
	if other := w.owners.claim(name, i); other != nil {
		w.faultf(i, "%s is %q, which belongs to namespace %s: Ingress %s named it, or a wildcard for it, before", at, written, other.Namespace, other.name())
		return nil
	}
	h := w.hosts[name]
	if h == nil {
		h = &host{name: name, owner: w.owners[name]}
		w.hosts[name] = h
	}
	return h
}

// read adds the rules, the default backend and the certificates of an Ingress.
func (w *translation) read(i *ingress) {
	var own []*host
	for n, rule := range i.Spec.Rules {
		at := fmt.Sprintf("spec.rules[%d]", n)
		h := w.named(i, rule.Host, at+".host")
		if h == nil {
			continue
		}
		h.routed = true
		if own = append(own, h); rule.HTTP == nil {
			continue
		}
		for m := range rule.HTTP.Paths {
			w.readPath(i, h, &rule.HTTP.Paths[m], fmt.Sprintf("%s.http.paths[%d]", at, m))
		}
	}
	if len(i.Spec.Rules) == 0 { // its default backend is for every host
		if h := w.named(i, "", "spec.defaultBackend"); h != nil {
			h.routed, own = true, []*host{h}
		}
	}
	w.readDefault(i, own)
	for n, tls := range i.Spec.TLS {
		w.readTLS(i, own, tls, fmt.Sprintf("spec.tls[%d]", n))
	}
}

func (w *translation) readPath(i *ingress, h *host, in *networkingv1.HTTPIngressPath, at string) {
	p, fault := readPath(in.Path, in.PathType)
	if fault != "" {
		w.faultf(i, "%s.path %s", at, fault)
		return
	}
	p.ingress, p.at = i, at
	if n := slices.IndexFunc(h.paths, func(o path) bool { return o.exact == p.exact && o.text == p.text }); n >= 0 {
		w.faultf(i, "%s.path %q of %s is not served: Ingress %s has it in %s", at, in.Path, h.name, h.paths[n].ingress.name(), h.paths[n].at)
		return
	}
	if p.route, fault = w.route(i.Namespace, &in.Backend); fault != "" {
		w.faultf(i, "%s.%s", at, fault)
	}
	h.paths = append(h.paths, p)
}

// readDefault adds a default backend to the hosts of the Ingress.
func (w *translation) readDefault(i *ingress, own []*host) {
	if i.Spec.DefaultBackend == nil {
		return
	}
	route, fault := w.route(i.Namespace, i.Spec.DefaultBackend)
	if fault != "" {
		w.faultf(i, "spec.default%s", strings.ToUpper(fault[:1])+fault[1:])
	}
	for _, h := range own {
		if h.fallback != nil {
			w.faultf(i, "spec.defaultBackend is not served for %s: Ingress %s has one", h.name, h.fallback.ingress.name())
			continue
		}
		h.fallback = &path{ingress: i, at: "spec.defaultBackend", route: route}
	}
}

// readTLS adds a certificate to the hosts that the item names, or, if it names none, to those of the rules.
func (w *translation) readTLS(i *ingress, own []*host, tls networkingv1.IngressTLS, at string) {
	if tls.SecretName == "" {
		w.faultf(i, "%s.secretName is missing, the hosts are served without TLS", at)
		return
	}
	hosts := own
	if len(tls.Hosts) > 0 {
		hosts = nil
		for n, written := range tls.Hosts {
			if h := w.named(i, written, fmt.Sprintf("%s.hosts[%d]", at, n)); h != nil {
				hosts = append(hosts, h)
			}
		}
	}
	secret := Name{i.Namespace, tls.SecretName}
	for _, h := range hosts {
		if h.secret != nil && *h.secret != secret {
			w.faultf(i, "%s.secretName is not served for %s: Secret %s is, which an older Ingress or an earlier item names", at, h.name, *h.secret)
			continue
		}
		h.secret = &secret
		w.wanted[secret] = true
		if fault := w.secrets[secret]; fault != "" {
			w.faultf(i, "%s.secretName: Secret %s %s; %s is served without TLS", at, secret, fault, h.name)
		}
	}
}

// serve adds the VirtualService of a host.
func (w *translation) serve(h *host, out map[string]model.Group) {
	routes := h.routes(h.name)
	if rest := w.hosts[anyHost]; rest != nil && isWildcard(h.name) {
		routes = append(routes, rest.routes(anyHost)...) // the wildcard's paths do not match hosts with more labels
	} else if rest != nil && rest != h && rest.fallback != nil {
		routes = append(routes, rest.fallback.all(h.name))
	}
	if !h.routed || len(routes) == 0 {
		return
	}
	w.add(out, h.owner, "VirtualService", h.name, &networking.VirtualService{
		Hosts: []string{h.name}, ExportTo: []string{w.options.Proxies}, Gateways: h.gateways, Http: routes,
	})
}

// routes returns the routes of a host's own paths and of its default backend.
func (h *host) routes(of string) (out []*networking.HTTPRoute) {
	paths := slices.Clone(h.paths)
	inOrder(paths)
	for _, p := range paths {
		out = append(out, p.all(of))
	}
	if h.fallback != nil && !slices.ContainsFunc(paths, func(p path) bool { return !p.exact && p.text == "" }) {
		out = append(out, h.fallback.all(of))
	}
	return out
}

// all returns the route of a path for a host.
func (p path) all(host string) *networking.HTTPRoute {
	return &networking.HTTPRoute{
		Name: p.ingress.name().String() + "." + p.at, Match: p.matches(host), Route: p.route.Route, DirectResponse: p.route.DirectResponse,
	}
}

// add adds an object that is made from an Ingress, with its origin.
func (w *translation) add(out map[string]model.Group, of *ingress, kind, name string, spec any) {
	name = objectName + name
	out[kind+"/"+of.Namespace+"/"+name] = model.Group{Objects: []*model.Object{{
		Meta: model.Meta{Kind: kind, Namespace: of.Namespace, Name: name, Created: of.CreationTimestamp.Time, Origin: of.at}, Spec: spec,
	}}}
}

// objectName is the prefix of the names of objects that are made here: no object of Kubernetes has a tilde in its name.
const objectName = "ingress~"

// plain is the name of the HTTP Gateway of a namespace.
const plain = "http"

// bind finds the Gateways at which each host is served.
func (w *translation) bind() {
	names := slices.Sorted(maps.Keys(w.hosts))
	for _, h := range w.hosts {
		h.gateways = []string{h.owner.Namespace + "/" + objectName + plain}
	}
	for _, name := range names {
		server := w.hosts[name]
		if !w.encrypted(server) {
			continue
		}
		candidates := []string{name, above(name), anyHost}
		if name == anyHost || isWildcard(name) {
			candidates = names
		}
		for _, candidate := range slices.Compact(candidates) {
			if h := w.hosts[candidate]; h != nil && h.owner.Namespace == server.owner.Namespace && w.under(h, server) {
				h.gateways = append(h.gateways, server.owner.Namespace+"/"+objectName+name)
			}
		}
	}
}

// under reports whether the rules of h route requests to the host of a certificate: there are no more specific rules
// for them.
func (w *translation) under(h, server *host) bool {
	switch {
	case h == server:
		return true
	case server.name == anyHost, isWildcard(server.name) && above(h.name) == server.name:
		return true // h is below it
	case server.routed:
		return false // it has rules of its own
	case h.name == anyHost:
		wildcard := w.hosts[above(server.name)]
		return wildcard == nil || !wildcard.routed || wildcard.owner.Namespace != h.owner.Namespace
	default:
		return above(server.name) == h.name
	}
}

// encrypted reports whether a host has a certificate that can be served, by SetSecrets.
func (w *translation) encrypted(h *host) bool {
	if h.secret == nil {
		return false
	}
	fault, looked := w.secrets[*h.secret]
	return looked && fault == ""
}

// listen adds the Gateways.
func (w *translation) listen(out map[string]model.Group) {
	for _, name := range slices.Sorted(maps.Keys(w.hosts)) {
		h := w.hosts[name]
		if h.routed {
			w.gateway(out, h.owner, plain, &networking.Server{
				Port:  &networking.Port{Number: w.options.HTTP, Protocol: "HTTP", Name: "http"},
				Hosts: []string{h.owner.Namespace + "/*"},
			})
		}
		if w.encrypted(h) {
			w.gateway(out, h.owner, h.name, &networking.Server{
				Port:  &networking.Port{Number: w.options.HTTPS, Protocol: "HTTPS", Name: "https"},
				Hosts: []string{h.owner.Namespace + "/" + h.name},
				Tls:   &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: Credential(*h.secret)},
			})
		}
	}
}

// gateway adds a Gateway of one server, with the oldest Ingress of the namespace as its origin.
func (w *translation) gateway(out map[string]model.Group, of *ingress, name string, server *networking.Server) {
	key := "Gateway/" + of.Namespace + "/" + objectName + name
	if group, known := out[key]; known && cmp.Or(group.Objects[0].Created.Compare(of.CreationTimestamp.Time), strings.Compare(group.Objects[0].Origin.String(), of.at.String())) <= 0 {
		return
	}
	w.add(out, of, "Gateway", name, &networking.Gateway{Selector: w.options.Selector, Servers: []*networking.Server{server}})
}
