package ingress

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
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
