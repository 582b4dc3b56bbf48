package ingress

import (
	"cmp"
	"fmt"
	"sort"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
)

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
