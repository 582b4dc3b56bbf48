package config

//lint:file-ignore SA1019 deprecated fields of Istio are read too: files still have them

import (
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// Rules for fields of an HTTPRoute that change requests, other than those that route them.

func redirect(f field, r *networking.HTTPRedirect) {
	if r == nil {
		return
	}
	if r.Uri == "" && r.Authority == "" && r.RedirectPort == nil && r.Scheme == "" && r.PrefixRewrite == "" {
		f.errorf("is empty, want uri, authority, port, scheme or prefixRewrite")
	}
	if r.RedirectCode != 0 && !slices.Contains([]uint32{301, 302, 303, 307, 308}, r.RedirectCode) {
		f.at("redirectCode").errorf("is %d, want 301, 302, 303, 307 or 308", r.RedirectCode)
	}
	if p, ok := r.RedirectPort.(*networking.HTTPRedirect_Port); ok {
		f.at("port").port(p.Port)
	}
	if r.Scheme != "" && r.Scheme != "http" && r.Scheme != "https" {
		f.at("scheme").errorf("is %q, want http or https", r.Scheme)
	}
	if r.Uri != "" && r.PrefixRewrite != "" {
		f.at("prefixRewrite").errorf("is given beside uri, want one of them")
	}
	for name, s := range inOrder(map[string]string{
		"uri": r.Uri, "authority": r.Authority,
		"prefixRewrite": r.PrefixRewrite,
	}) {
		f.at(name).text(s)
	}
}

func directResponse(f field, d *networking.HTTPDirectResponse) {
	if d.Status < 200 || d.Status > 599 {
		f.at("status").errorf("is %d, want 200 to 599", d.Status)
	}
	const large, most = 100 << 10, 1 << 20
	switch n := max(len(d.GetBody().GetString_()), len(d.GetBody().GetBytes())); {
	case n > most:
		f.at("body").errorf("is %d bytes long, want at most %d", n, most)
	case n > large:
		f.at("body").warnf("is %d bytes long, which each proxy gets with each change of its routes", n)
	}
	if d.Body != nil && d.Body.Specifier == nil {
		f.at("body").errorf("is empty, want string or bytes")
	}
}

func rewrite(f field, r *networking.HTTPRewrite) {
	if r == nil {
		return
	}
	if r.Uri == "" && r.Authority == "" && r.UriRegexRewrite == nil {
		f.errorf("is empty, want uri, uriRegexRewrite or authority")
	}
	f.at("uri").text(r.Uri)
	f.at("authority").text(r.Authority)
	if regex := r.UriRegexRewrite; regex != nil {
		if r.Uri != "" {
			f.at("uriRegexRewrite").errorf("is given beside uri, want one of them")
		}
		at := f.at("uriRegexRewrite")
		if at.at("match").required(len(regex.Match)) {
			at.at("match").regex(regex.Match)
		}
		at.at("rewrite").text(regex.Rewrite)
		substitution(at.at("rewrite"), regex)
	}
}

// substitution requires that all groups exist in the pattern: Envoy refuses others.
func substitution(f field, r *networking.RegexRewrite) {
	pattern, err := syntax.Parse(r.Match, syntax.Perl)
	if err != nil || len(r.Match) > maxRegexLength {
		return // reported already
	}
	for i := 0; i < len(r.Rewrite); i++ {
		if r.Rewrite[i] != '\\' {
			continue
		}
		if i++; i == len(r.Rewrite) || r.Rewrite[i] != '\\' && (r.Rewrite[i] < '0' || r.Rewrite[i] > '9') {
			f.errorf("is %q, want a digit or another \\ after each \\", r.Rewrite)
			return
		}
		if r.Rewrite[i] != '\\' && int(r.Rewrite[i]-'0') > pattern.MaxCap() {
			f.errorf("is %q, and the pattern has %d groups", r.Rewrite, pattern.MaxCap())
			return
		}
	}
}

func retries(f field, r *networking.HTTPRetry) {
	if r == nil {
		return
	}
	f.at("attempts").count(r.Attempts)
	if r.Attempts == 0 && (r.PerTryTimeout != nil || r.RetryOn != "" || r.RetryRemoteLocalities != nil) {
		f.at("attempts").errorf("is 0, which is no retry, beside what is to be done on one")
	}
	f.at("perTryTimeout").duration(r.PerTryTimeout)
	f.at("backoff").duration(r.Backoff)
	if r.RetryOn == "" {
		return
	}
	for condition := range strings.SplitSeq(r.RetryOn, ",") {
		condition = strings.TrimSpace(condition)
		if code, err := strconv.Atoi(condition); err == nil {
			if code < 100 || code > 599 {
				f.at("retryOn").errorf("is %q: %d is no status code", r.RetryOn, code)
			}
			continue
		}
		if !slices.Contains(retryConditions(), condition) {
			f.at("retryOn").errorf("has %q%s", condition, suggest(condition, retryConditions()))
		}
	}
}

// retryConditions returns the retry conditions of Envoy's router filter, for HTTP and gRPC.
func retryConditions() []string {
	return []string{
		"5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "envoy-ratelimited",
		"retriable-4xx", "refused-stream", "retriable-status-codes", "retriable-headers",
		"http3-post-connect-failure", "cancelled", "deadline-exceeded", "internal", "resource-exhausted",
		"unavailable",
	}
}

func fault(f field, in *networking.HTTPFaultInjection) {
	if in == nil {
		return
	}
	if in.Delay == nil && in.Abort == nil {
		f.errorf("is empty, want delay or abort")
	}
	if d := in.Delay; d != nil {
		at := f.at("delay")
		at.at("percentage").percent(d.GetPercentage().GetValue())
		at.at("percent").percent(float64(d.Percent))
		if d.Percent != 0 {
			at.at("percent").warnf("is deprecated: want percentage: {value: %d}", d.Percent)
		}
		if d.GetFixedDelay() == nil && d.GetExponentialDelay() == nil {
			at.at("fixedDelay").errorf("is missing")
		}
		at.at("fixedDelay").duration(d.GetFixedDelay())
		if d.Percentage == nil && d.Percent == 0 {
			at.at("percentage").warnf("is missing: no request is delayed")
		}
	}
	if a := in.Abort; a != nil {
		at := f.at("abort")
		at.at("percentage").percent(a.GetPercentage().GetValue())
		switch e := a.ErrorType.(type) {
		case nil:
			at.at("httpStatus").errorf("is missing")
		case *networking.HTTPFaultInjection_Abort_HttpStatus:
			if e.HttpStatus < 200 || e.HttpStatus > 599 {
				at.at("httpStatus").errorf("is %d, want 200 to 599", e.HttpStatus)
			}
		case *networking.HTTPFaultInjection_Abort_GrpcStatus:
			if !slices.Contains(grpcStatuses(), strings.ToUpper(e.GrpcStatus)) {
				at.at("grpcStatus").errorf("is %q%s", e.GrpcStatus, suggest(e.GrpcStatus, grpcStatuses()))
			}
		}
		if a.Percentage == nil {
			at.at("percentage").warnf("is missing: no request is aborted")
		}
	}
}

func grpcStatuses() []string {
	return []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
}

func mirror(f field, r *networking.HTTPRoute) {
	if r.Mirror != nil {
		destination(f.at("mirror"), r.Mirror)
		if len(r.Mirrors) > 0 {
			f.at("mirrors").errorf("are given beside mirror, want one of them")
		}
	}
	for i, m := range r.Mirrors {
		destination(f.at("mirrors").item(i).at("destination"), m.GetDestination())
		f.at("mirrors").item(i).at("percentage").percent(m.GetPercentage().GetValue())
	}
	f.at("mirrorPercentage").percent(r.GetMirrorPercentage().GetValue())
	f.at("mirrorPercent").percent(float64(r.GetMirrorPercent().GetValue()))
	if r.Mirror == nil && (r.MirrorPercentage != nil || r.MirrorPercent != nil) {
		f.at("mirrorPercentage").warnf("is given without mirror, ignored")
	}
}

func cors(f field, c *networking.CorsPolicy) {
	if c == nil {
		return
	}
	for i, origin := range c.AllowOrigins {
		at := f.at("allowOrigins").item(i)
		if origin.GetMatchType() == nil {
			at.errorf("is empty, want exact, prefix or regex")
		}
		stringMatch(at, origin)
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "*"}
	for i, m := range c.AllowMethods {
		if !slices.Contains(methods, m) {
			f.at("allowMethods").item(i).errorf("is %q%s", m, suggest(m, methods))
		}
	}
	for name, list := range inOrder(map[string][]string{
		"allowHeaders":  c.AllowHeaders,
		"exposeHeaders": c.ExposeHeaders,
	}) {
		for i, h := range list {
			if h != "*" && (!headerName.MatchString(h) || strings.HasPrefix(h, ":")) {
				f.at(name).item(i).errorf("is %q, want the name of a header", h)
			}
		}
	}
	if d := c.MaxAge; d != nil && (d.AsDuration() < 0 || d.Nanos != 0) {
		f.at("maxAge").errorf("is %v, want whole seconds", d.AsDuration())
	}
}

func headers(f field, h *networking.Headers) {
	operations(f.at("request"), h.GetRequest(), true)
	operations(f.at("response"), h.GetResponse(), false)
}

// operations requires header operations that Envoy allows in routes: pseudo-headers cannot be changed, but the host of
// a request can be set.
func operations(f field, o *networking.Headers_HeaderOperations, request bool) {
	for operation, values := range inOrder(map[string]map[string]string{"set": o.GetSet(), "add": o.GetAdd()}) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			at := f.at(operation).key(name)
			host := strings.EqualFold(name, "host") || name == ":authority"
			switch {
			case host && request && operation == "set":
				at.text(values[name])
				continue
			case host || strings.HasPrefix(name, ":") || !headerName.MatchString(name):
				at.errorf("the header's name is %q, want one that routes may change", name)
			}
			headerValue(at, values[name])
		}
	}
	for i, name := range o.GetRemove() {
		if !headerName.MatchString(name) || strings.HasPrefix(name, ":") || strings.EqualFold(name, "host") {
			f.at("remove").item(i).errorf("is %q, want the name of a header that routes may remove", name)
		}
	}
}

// headerValue requires text on one line, with commands that Envoy supports.
func headerValue(f field, v string) {
	f.text(v)
	if len(v) > 16<<10 {
		f.errorf("is %d bytes long, want at most %d", len(v), 16<<10)
	}
	for _, fault := range headerFormatted(v) {
		f.errorf("%s", fault)
	}
}

// shadows warns of routes and matches of HTTP that no request reaches, since one above takes all of theirs.
func shadows(f field, routes []*networking.HTTPRoute) {
	all := -1                       // the first route that takes every request
	prefixes := map[string]string{} // of paths that a match takes, by its other conditions and the prefix, with the place of the match
	matches := map[string]string{}  // matches as texts, with their places
	for i, route := range routes {
		if all >= 0 {
			f.item(i).warnf("is never reached: http[%d] takes every request", all)
			continue
		}
		if len(route.GetMatch()) == 0 {
			all = i
		}
		for j, m := range route.GetMatch() {
			at := f.item(i).at("match").item(j)
			m = unnamed(m)
			others := conditions(m)
			if above := covering(prefixes, others, m); above != "" {
				at.warnf("is never reached: %s takes all requests of its path%s", above, map[bool]string{true: ", under the same conditions"}[others != ""])
				continue
			}
			text, place := textOf(m), fmt.Sprintf("http[%d].match[%d]", i, j)
			if above, known := matches[text]; known {
				at.warnf("is never reached: %s is the same", above)
				continue
			}
			matches[text] = place
			if prefix := m.GetUri().GetPrefix(); prefix != "" && !m.GetIgnoreUriCase() {
				prefixes[others+" "+prefix] = place
			}
		}
	}
}

// textOf returns the same text for equal matches.
func textOf(m proto.Message) string {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil { // a string that is no UTF-8 is refused before
		return fmt.Sprint("unreadable ", m)
	}
	return string(text)
}

// conditions returns what a match asks for beside the path; "" for nothing.
func conditions(m *networking.HTTPMatchRequest) string {
	out := proto.CloneOf(m)
	out.Uri = nil
	return textOf(out)
}

// unnamed returns a match without what does not choose requests.
func unnamed(m *networking.HTTPMatchRequest) *networking.HTTPMatchRequest {
	if m.GetName() == "" && m.GetStatPrefix() == "" {
		return m
	}
	out := proto.CloneOf(m)
	out.Name, out.StatPrefix = "", ""
	return out
}

// covering returns the place of a prefix that takes every path of a match, whatever else is in a request, or under the
// same conditions; "" if there is none.
func covering(prefixes map[string]string, others string, m *networking.HTTPMatchRequest) string {
	path := m.GetUri().GetPrefix()
	if exact := m.GetUri().GetExact(); exact != "" {
		path = exact
	}
	const longest = 1024 // the work is the square of it
	if len(prefixes) == 0 || m.GetIgnoreUriCase() {
		return ""
	}
	for n := 1; n <= min(len(path), longest); n++ {
		for _, key := range []string{" " + path[:n], others + " " + path[:n]} {
			if place := prefixes[key]; place != "" {
				return place
			}
		}
	}
	return ""
}

// shadowed warns of routes and matches of connections that no connection reaches: those below a route that takes every
// connection, and those that are the same as one above. matches returns those of a route.
func shadowed[R any, M proto.Message](f field, kind string, routes []R, matches func(R) []M) {
	all := -1
	known := map[string]string{}
	for i, route := range routes {
		if all >= 0 {
			f.item(i).warnf("is never reached: %s[%d] takes every connection", kind, all)
			continue
		}
		list := matches(route)
		if len(list) == 0 {
			all = i
		}
		for j, m := range list {
			text := textOf(m)
			if above, same := known[text]; same {
				f.item(i).at("match").item(j).warnf("is never reached: %s is the same", above)
				continue
			}
			known[text] = fmt.Sprintf("%s[%d].match[%d]", kind, i, j)
			if text == "" {
				all = i
			}
		}
	}
}
