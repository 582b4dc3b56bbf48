package explain

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// mismatch returns the first condition of a match that a request does not meet, "" if it meets all.
func mismatch(m *routev3.RouteMatch, r Request) string {
	if reason := pathMismatch(m, r.bare()); reason != "" {
		return reason
	}
	for _, h := range m.Headers {
		if reason := headerMismatch(h, r); reason != "" {
			return reason
		}
	}
	for _, q := range m.QueryParameters {
		if reason := queryMismatch(q, r); reason != "" {
			return reason
		}
	}
	for _, d := range m.DynamicMetadata {
		if !d.Invert {
			return "the request of explain has no token, want one with the claim " + claim(d)
		}
	}
	if m.Grpc != nil && !r.isGRPC() {
		return "the request is not gRPC"
	}
	return ""
}

func claim(m *matcherv3.MetadataMatcher) string {
	var names []string
	for _, part := range m.Path {
		names = append(names, part.GetKey())
	}
	return strings.Join(names, ".")
}

func pathMismatch(m *routev3.RouteMatch, path string) string {
	fold := func(s string) string { return s }
	if m.CaseSensitive != nil && !m.CaseSensitive.Value {
		fold = strings.ToLower
	}
	switch p := m.PathSpecifier.(type) {
	case *routev3.RouteMatch_Path:
		if fold(path) != fold(p.Path) {
			return fmt.Sprintf("the path is %s, want %s", path, p.Path)
		}
	case *routev3.RouteMatch_Prefix:
		if !strings.HasPrefix(fold(path), fold(p.Prefix)) {
			return fmt.Sprintf("the path is %s, want one that begins with %s", path, p.Prefix)
		}
	case *routev3.RouteMatch_PathSeparatedPrefix:
		rest, ok := strings.CutPrefix(fold(path), fold(p.PathSeparatedPrefix))
		if !ok || rest != "" && rest[0] != '/' {
			return fmt.Sprintf("the path is %s, want %s or one below it", path, p.PathSeparatedPrefix)
		}
	case *routev3.RouteMatch_SafeRegex:
		if !matchesWhole(p.SafeRegex.GetRegex(), path) {
			return fmt.Sprintf("the path is %s, want one like %s", path, p.SafeRegex.GetRegex())
		}
	default:
		return fmt.Sprintf("explain does not judge a match by %T", p)
	}
	return ""
}

// matchesWhole reports whether a regular expression matches a whole text: Envoy's RE2 and Go's have the same syntax. One that
// does not compile matches nothing.
func matchesWhole(expression, text string) bool {
	re, err := regexp.Compile("^(?:" + expression + ")$")
	return err == nil && re.MatchString(text)
}

func headerMismatch(m *routev3.HeaderMatcher, r Request) string {
	value, found := r.header(m.Name)
	not := ""
	if m.InvertMatch {
		not = "not "
	}
	holds, want := false, ""
	switch s := m.HeaderMatchSpecifier.(type) {
	case *routev3.HeaderMatcher_PresentMatch:
		holds, want = found == s.PresentMatch, "present"
		if !s.PresentMatch {
			want = "absent"
		}
	case *routev3.HeaderMatcher_StringMatch:
		want = wanted(s.StringMatch)
		if !found && !m.TreatMissingHeaderAsEmpty {
			return fmt.Sprintf("header %s is absent, want %s%s", m.Name, not, want)
		}
		holds = matches(s.StringMatch, value)
	case *routev3.HeaderMatcher_RangeMatch:
		n, err := strconv.ParseInt(value, 10, 64)
		holds, want = found && err == nil && n >= s.RangeMatch.Start && n < s.RangeMatch.End, fmt.Sprintf("%d to %d", s.RangeMatch.Start, s.RangeMatch.End-1)
	case nil:
		holds, want = found, "present"
	default:
		return fmt.Sprintf("explain does not judge a match by %T", s)
	}
	if holds != m.InvertMatch {
		return ""
	}
	if !found {
		return fmt.Sprintf("header %s is absent, want %s%s", m.Name, not, want)
	}
	return fmt.Sprintf("header %s is %q, want %s%s", m.Name, value, not, want)
}

func queryMismatch(m *routev3.QueryParameterMatcher, r Request) string {
	value, found := r.query(m.Name)
	if !found {
		return fmt.Sprintf("query parameter %s is absent", m.Name)
	}
	if s := m.GetStringMatch(); s != nil && !matches(s, value) {
		return fmt.Sprintf("query parameter %s is %q, want %s", m.Name, value, wanted(s))
	}
	return ""
}

// matches reports whether a text is what a matcher wants.
func matches(m *matcherv3.StringMatcher, text string) bool {
	fold := func(s string) string { return s }
	if m.IgnoreCase {
		fold = strings.ToLower
	}
	switch p := m.MatchPattern.(type) {
	case *matcherv3.StringMatcher_Exact:
		return fold(text) == fold(p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(text), fold(p.Prefix))
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(text), fold(p.Suffix))
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(fold(text), fold(p.Contains))
	case *matcherv3.StringMatcher_SafeRegex:
		return matchesWhole(p.SafeRegex.GetRegex(), text)
	}
	return false
}

// wanted says what a matcher wants.
func wanted(m *matcherv3.StringMatcher) string {
	switch p := m.MatchPattern.(type) {
	case *matcherv3.StringMatcher_Exact:
		return strconv.Quote(p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return "one that begins with " + strconv.Quote(p.Prefix)
	case *matcherv3.StringMatcher_Suffix:
		return "one that ends with " + strconv.Quote(p.Suffix)
	case *matcherv3.StringMatcher_Contains:
		return "one that contains " + strconv.Quote(p.Contains)
	case *matcherv3.StringMatcher_SafeRegex:
		return "one like " + p.SafeRegex.GetRegex()
	}
	return fmt.Sprintf("what explain does not judge: %T", m.MatchPattern)
}

// hostFor returns the virtual host of a request, and the domain of it that matches: the host itself, else the longest
// "*suffix", else the longest "prefix*", else "*".
func hostFor(c *routev3.RouteConfiguration, host string) (*routev3.VirtualHost, string) {
	if c.IgnorePortInHostMatching {
		host, _ = splitPort(host)
	}
	host = strings.ToLower(host)
	var best *routev3.VirtualHost
	domain, rank := "", 0
	for _, h := range c.VirtualHosts {
		for _, d := range h.Domains {
			if r := rankOf(strings.ToLower(d), host); r > rank {
				best, domain, rank = h, d, r
			}
		}
	}
	return best, domain
}

const (
	anyHost    = 1
	prefixHost = 1 << 16 // plus the length of the domain, which Envoy bounds
	suffixHost = 1 << 20
	exactHost  = 1 << 24
)

// rankOf returns how much a domain is preferred for a host, 0 if it does not match. A wildcard stands for one character at least.
func rankOf(domain, host string) int {
	suffix, ends := strings.CutPrefix(domain, "*")
	prefix, begins := strings.CutSuffix(domain, "*")
	switch {
	case domain == host:
		return exactHost
	case domain == "*":
		return anyHost
	case ends && len(host) > len(suffix) && strings.HasSuffix(host, suffix):
		return suffixHost + len(domain)
	case begins && len(host) > len(prefix) && strings.HasPrefix(host, prefix):
		return prefixHost + len(domain)
	}
	return 0
}
