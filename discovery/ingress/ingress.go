package ingress

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"sort"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// ingress is an Ingress of a store, as it was read. It is immutable.
type ingress struct {
	*networkingv1.Ingress
	at    model.Origin
	store string

	class, classAt, classFault string

	fallback field            // of the default backend
	order    []string         // the hosts that it names, each once
	parts    map[string]*part // by host
	faults   []fault          // that depend on no other object
	last     int              // the fields that were counted
}

// part is the content of an Ingress for one host.
type part struct {
	claims       []claim
	routed       bool // a rule names it, not a certificate alone
	paths        []path
	fallback     *path // its default backend
	certificates []certificate
}

// field is the place of a fault: its position among all fields of the Ingress, and its path.
type field struct {
	order int
	path  string
}

// claim is a field that names a host.
type claim struct {
	field
	written string
}

type certificate struct {
	field
	secret Name
}

func (i *ingress) name() Name { return Name{i.Namespace, i.Name} }

// older orders them by age, then by name. An Ingress without a creationTimestamp, as in a file, is the oldest.
func (i *ingress) older(o *ingress) int {
	return cmp.Or(i.CreationTimestamp.Compare(o.CreationTimestamp.Time), i.name().compare(o.name()))
}

// same reports whether an object and its origin are the ones that were read.
func (i *ingress) same(o *networkingv1.Ingress, at model.Origin) bool {
	return i.UID == o.UID && i.CreationTimestamp.Equal(&o.CreationTimestamp) && i.Annotations[classAnnotation] == o.Annotations[classAnnotation] &&
		reflect.DeepEqual(i.at, at) && reflect.DeepEqual(i.Spec, o.Spec)
}

func readIngress(store string, o *networkingv1.Ingress, at model.Origin) *ingress {
	i := &ingress{Ingress: o, at: at, store: store, parts: map[string]*part{}}
	i.class, i.classAt, i.classFault = readClass(o)
	var own []*part
	for n, rule := range o.Spec.Rules {
		at := fmt.Sprintf("spec.rules[%d]", n)
		p := i.named(rule.Host, i.field(at+".host"))
		if p == nil {
			continue
		}
		p.routed = true
		if own = append(own, p); rule.HTTP == nil || len(rule.HTTP.Paths) == 0 {
			if o.Spec.DefaultBackend == nil {
				i.fault(i.field(at+".http"), false, "has no paths, and there is no spec.defaultBackend: it serves nothing")
			}
			continue
		}
		for m := range rule.HTTP.Paths {
			i.readPath(p, &rule.HTTP.Paths[m], fmt.Sprintf("%s.http.paths[%d]", at, m))
		}
	}
	i.readDefault(&own)
	for n, tls := range o.Spec.TLS {
		i.readTLS(own, tls, fmt.Sprintf("spec.tls[%d]", n))
	}
	return i
}

// field returns the next field.
func (i *ingress) field(path string) field {
	i.last++
	return field{i.last, path}
}

// fault adds a fault. refused reports whether an API server refuses an object with it.
func (i *ingress) fault(at field, refused bool, format string, args ...any) {
	i.faults = append(i.faults, fault{order: at.order, path: at.path, text: fmt.Sprintf(format, args...), refused: refused})
}

// named returns the part of a host, or nil if its name is malformed.
func (i *ingress) named(written string, at field) *part {
	name, wrong := readHost(written)
	if wrong != "" {
		i.fault(at, true, "%s", wrong)
		return nil
	}
	p := i.parts[name]
	if p == nil {
		p = &part{}
		i.parts[name], i.order = p, append(i.order, name)
	}
	p.claims = append(p.claims, claim{at, cmp.Or(written, anyHost)})
	return p
}

func (i *ingress) readPath(of *part, in *networkingv1.HTTPIngressPath, at string) {
	p, wrong := readPath(in.Path, in.PathType)
	p.ingress, p.written, p.backend = i, in.Path, &in.Backend
	p.field = i.field(at)
	if wrong != "" {
		i.fault(field{p.order, at + ".path"}, true, "%s", wrong)
		return
	}
	of.paths = append(of.paths, p)
}

// readDefault adds the default backend to the hosts of the rules, or, without rules, to every host.
func (i *ingress) readDefault(own *[]*part) {
	at := i.field("spec.defaultBackend")
	i.fallback = at
	b := i.Spec.DefaultBackend
	switch {
	case b == nil && len(i.Spec.Rules) == 0:
		i.fault(field{at.order, "spec"}, true, "has neither rules nor a defaultBackend")
	case b == nil:
	case len(i.Spec.Rules) == 0:
		p := i.named("", at)
		p.routed, *own = true, []*part{p}
	}
	for _, p := range *own {
		if b != nil {
			p.fallback = &path{ingress: i, field: at, backend: b}
		}
	}
}

// readTLS adds a certificate to the hosts that the item names, or, if it names none, to those of the rules.
func (i *ingress) readTLS(own []*part, tls networkingv1.IngressTLS, at string) {
	if tls.SecretName == "" {
		i.fault(i.field(at+".secretName"), false, "is missing, the hosts are served without TLS")
		return
	}
	parts := own
	if len(tls.Hosts) > 0 {
		parts = nil
		for n, written := range tls.Hosts {
			if p := i.named(written, i.field(fmt.Sprintf("%s.hosts[%d]", at, n))); p != nil {
				parts = append(parts, p)
			}
		}
	}
	c := certificate{i.field(at + ".secretName"), Name{i.Namespace, tls.SecretName}}
	for _, p := range parts {
		p.certificates = append(p.certificates, c)
	}
}

// anyHost is the host of rules that name none.
const anyHost = "*"

var hostName = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// readHost returns a host in lower case, as requests name it, or its fault.
func readHost(written string) (host, fault string) {
	if written == "" {
		return anyHost, ""
	}
	host = strings.ToLower(written)
	if _, err := netip.ParseAddr(host); err == nil || !hostName.MatchString(host) || len(host) > 253 {
		return "", fmt.Sprintf("is %q, want a DNS name, or a wildcard such as *.foo.com", written)
	}
	return host, ""
}

// above returns the wildcard that matches a host, or "" for a wildcard.
func above(host string) string {
	if _, rest, found := strings.Cut(host, "."); found && !isWildcard(host) {
		return "*." + rest
	}
	return ""
}

func isWildcard(host string) bool { return strings.HasPrefix(host, "*.") }

// oneLabel returns a regular expression that matches authorities with one label in the place of a wildcard's star.
func oneLabel(wildcard string) string {
	return `(?i)[^.:]+` + regexp.QuoteMeta(strings.TrimPrefix(wildcard, "*")) + `(:[0-9]+)?`
}

// path is a path of an Ingress.
type path struct {
	field
	written string
	exact   bool
	text    string // without the slashes at the end of a prefix; "" matches every path
	ingress *ingress
	backend *networkingv1.IngressBackend
	route   *networking.HTTPRoute // to the backend, as it is now
}

// readPath reads the path and its type.
func readPath(written string, kind *networkingv1.PathType) (p path, fault string) {
	p.text = written
	switch {
	case kind == nil, *kind == networkingv1.PathTypeImplementationSpecific:
		if p.text == "" {
			p.text = "/"
		}
		p.text = strings.TrimSuffix(p.text, "*")
		if p.text != written && !strings.HasSuffix(p.text, "/") || strings.ContainsAny(p.text, "*") {
			return p, fmt.Sprintf("is %q, which no pathType takes: want a path, or one that ends in /*", written)
		}
	case *kind == networkingv1.PathTypeExact:
		p.exact = true
	case *kind == networkingv1.PathTypePrefix:
	default:
		return p, fmt.Sprintf("has pathType %q, want Exact, Prefix or ImplementationSpecific", *kind)
	}
	if !strings.HasPrefix(p.text, "/") {
		return p, fmt.Sprintf("is %q, want a path that begins with /", written)
	}
	if part := unmatched(p.text); part != "" {
		return p, fmt.Sprintf("is %q, want a path without %q: no request has it after its path is normalized", written, part)
	}
	if !p.exact {
		p.text = strings.TrimRight(p.text, "/")
	}
	return p, ""
}

// unmatched returns the part of a path that no request has, "" for none: the API server refuses most of these, Envoy
// removes dot segments, and a query or a control character is no part of a path.
func unmatched(text string) string {
	for _, part := range []string{"//", "/./", "/../", "%2f", "%2F", "?", "#"} {
		if strings.Contains(text, part) {
			return part
		}
	}
	for _, end := range []string{"/..", "/."} {
		if strings.HasSuffix(text, end) {
			return end
		}
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		return text[i : i+1]
	}
	return ""
}

// inOrder sorts paths by the precedence of Kubernetes: the longest first, and Exact before Prefix.
func inOrder(paths []path) {
	sort.Slice(paths, func(i, j int) bool {
		a, b := paths[i], paths[j]
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text), exactFirst(a.exact, b.exact)) < 0
	})
}

func exactFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// matches returns the match conditions of the path; for a wildcard, only for hosts with one label in its place.
func (p path) matches(host string) (out []*networking.HTTPMatchRequest) {
	var authority *networking.StringMatch
	if isWildcard(host) {
		authority = &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: oneLabel(host)}}
	}
	exactly := &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: p.text}}
	below := &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: p.text + "/"}}
	switch {
	case p.exact:
		out = []*networking.HTTPMatchRequest{{Uri: exactly}}
	case p.text == "":
		out = []*networking.HTTPMatchRequest{{Uri: below}}
	default: // /foo is not /foobar
		out = []*networking.HTTPMatchRequest{{Uri: exactly}, {Uri: below}}
	}
	for _, m := range out {
		m.Authority = authority
	}
	return out
}
