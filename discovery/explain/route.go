package explain

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
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

// action adds what the route does with a share of the requests.
func (j *judge) action(route *routev3.Route, share float64, r Request) {
	switch a := route.Action.(type) {
	case *routev3.Route_DirectResponse:
		j.end(Outcome{Share: share, Status: int(a.DirectResponse.Status), Reason: "the route answers itself"})
	case *routev3.Route_Redirect:
		status := map[routev3.RedirectAction_RedirectResponseCode]int{
			routev3.RedirectAction_FOUND: 302, routev3.RedirectAction_SEE_OTHER: 303,
			routev3.RedirectAction_TEMPORARY_REDIRECT: 307, routev3.RedirectAction_PERMANENT_REDIRECT: 308,
		}[a.Redirect.ResponseCode]
		if status == 0 {
			status = 301
		}
		j.end(Outcome{Share: share, Status: status, Reason: "the route redirects" + target(a.Redirect)})
	case *routev3.Route_Route:
		sent := Outcome{Host: rewrittenHost(a.Route, r.Host), Path: rewrittenPath(route.GetMatch(), a.Route, r), Limits: limitsOf(a.Route)}
		if name := a.Route.GetCluster(); name != "" {
			j.cluster(name, share, sent, r)
			return
		}
		all := a.Route.GetWeightedClusters().GetClusters()
		total := 0.0
		for _, c := range all {
			total += float64(c.GetWeight().GetValue())
		}
		for _, c := range all {
			own := sent
			if host := c.GetHostRewriteLiteral(); host != "" {
				own.Host = host
			}
			if w := float64(c.GetWeight().GetValue()); w > 0 {
				j.cluster(c.Name, share*w/total, own, r)
			}
		}
		if total == 0 {
			j.end(Outcome{Share: share, Reason: fmt.Sprintf("explain does not judge a destination by %T", a.Route.ClusterSpecifier)})
		}
	default:
		j.end(Outcome{Share: share, Reason: fmt.Sprintf("explain does not judge an action by %T", a)})
	}
}

// target says where a redirect leads.
func target(a *routev3.RedirectAction) string {
	var to []string
	add := func(what, value string) {
		if value != "" {
			to = append(to, what+" "+value)
		}
	}
	add("scheme", a.GetSchemeRedirect())
	add("host", a.HostRedirect)
	if a.PortRedirect != 0 {
		add("port", fmt.Sprint(a.PortRedirect))
	}
	add("path", a.GetPathRedirect())
	add("prefix", a.GetPrefixRewrite())
	if len(to) == 0 {
		return ""
	}
	return " to " + strings.Join(to, ", ")
}

func rewrittenHost(a *routev3.RouteAction, host string) string {
	if to := a.GetHostRewriteLiteral(); to != "" {
		return to
	}
	return host
}

var reference = regexp.MustCompile(`\\(\d)`)

// rewrittenPath returns the path that the server gets, with the query.
func rewrittenPath(m *routev3.RouteMatch, a *routev3.RouteAction, r Request) string {
	path, rest := r.bare(), strings.TrimPrefix(r.Path, r.bare())
	if re := a.GetRegexRewrite(); re != nil {
		pattern, err := regexp.Compile(re.GetPattern().GetRegex())
		if err != nil {
			return r.Path
		}
		to := strings.ReplaceAll(re.Substitution, "$", "$$")
		return pattern.ReplaceAllString(path, strings.ReplaceAll(reference.ReplaceAllString(to, "$${$1}"), `\\`, `\`)) + rest
	}
	if a.PrefixRewrite == "" {
		return r.Path
	}
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return a.PrefixRewrite + path[min(len(p.Prefix), len(path)):] + rest
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return a.PrefixRewrite + path[min(len(p.PathSeparatedPrefix), len(path)):] + rest
	}
	return a.PrefixRewrite + rest // the whole path
}

// inForce says what a route does beside its destination.
func inForce(r *routev3.Route) string {
	a := r.GetRoute()
	if a == nil {
		return ""
	}
	out := limitsOf(a).text()
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if a.PrefixRewrite != "" {
		add("the matched path becomes %s", a.PrefixRewrite)
	}
	if re := a.RegexRewrite; re != nil {
		add("the path %s becomes %s", re.GetPattern().GetRegex(), re.Substitution)
	}
	if h := a.GetHostRewriteLiteral(); h != "" {
		add("the host becomes %s", h)
	}
	for _, m := range a.RequestMirrorPolicies {
		add("%s copied to %s", percent(share(m.GetRuntimeFraction().GetDefaultValue())), m.Cluster)
	}
	return strings.Join(out, "; ")
}

// Limits are how long the proxy waits for the answer to a request that it sends on, and how often it tries.
type Limits struct {
	Timeout Duration `json:"timeout,omitempty"` // for all tries together: then 504 (UT), or an error of gRPC; none if 0
	Retries *Retries `json:"retries,omitempty"`
}

// Retries are the tries after the first.
type Retries struct {
	Attempts uint32   `json:"attempts"` // at most
	On       string   `json:"on"`       // Envoy's conditions: "connect-failure,503"
	Statuses []uint32 `json:"statuses,omitempty"`
	PerTry   Duration `json:"perTry,omitempty"` // for each try, the first too; none if 0
}

// Delay is a fault: a share of requests waits before the proxy goes on with it.
type Delay struct {
	Share float64  `json:"share"`
	Time  Duration `json:"time"`
}

// Duration is written as Go does: "1.5s".
type Duration time.Duration

// String returns the duration as it is written.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// envoyTimeout is Envoy's own, of a route that sets none.
const envoyTimeout = Duration(15 * time.Second)

func limitsOf(a *routev3.RouteAction) Limits {
	out := Limits{Timeout: envoyTimeout}
	if a.Timeout != nil {
		out.Timeout = durationOf(a.Timeout)
	}
	if p := a.RetryPolicy; p != nil {
		out.Retries = &Retries{Attempts: 1, On: p.RetryOn, Statuses: p.RetriableStatusCodes, PerTry: durationOf(p.PerTryTimeout)}
		if p.NumRetries != nil {
			out.Retries.Attempts = p.NumRetries.Value
		}
	}
	return out
}

func durationOf(d *durationpb.Duration) Duration { return Duration(d.AsDuration()) }

// text says the limits in parts of a sentence.
func (l Limits) text() []string {
	out := []string{"no timeout", "no retries"}
	if l.Timeout > 0 {
		out[0] = "timeout " + l.Timeout.String()
	}
	if r := l.Retries; r != nil {
		out[1] = fmt.Sprintf("%d retries on %s", r.Attempts, r.On)
		if len(r.Statuses) > 0 {
			out[1] += fmt.Sprintf(" %v", r.Statuses)
		}
		if r.PerTry > 0 {
			out[1] += ", each try " + r.PerTry.String()
		}
	}
	return out
}
