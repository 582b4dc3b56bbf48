package xds

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// router translates rules for one port of one gateway, or of the mesh.
type router struct {
	scope   *model.Scope
	gateway string // model.MeshGateway for sidecars
	port    uint32 // to which clients connect

	encrypted bool // clients use HTTPS to the proxy
}

// serviceRoutes returns the routes to one port of a service: those of its VirtualService, one for each match, in their
// order. Without a VirtualService, or if none of its routes is for this proxy and port, it returns one route to the
// whole service.
func (r router) serviceRoutes(host string, rule *networking.VirtualService) []*routev3.Route {
	if routes := r.routes(rule); len(routes) > 0 {
		return routes
	}
	d := &networking.Destination{Host: host, Port: &networking.PortSelector{Number: r.port}}
	out := toCluster("default", r.clusterOf(d))
	out.GetRoute().HashPolicy = r.hashPolicy(d)
	out.GetRoute().RetryPolicy = r.retry(nil, out.GetRoute().HashPolicy)
	return []*routev3.Route{out}
}

// routes returns the routes of a VirtualService that are for this proxy and port. Routes after one that matches every
// request are left out, since no request would reach them.
func (r router) routes(rule *networking.VirtualService) []*routev3.Route {
	var out []*routev3.Route
	for _, route := range r.each(rule) {
		out = append(out, route)
	}
	return out
}

// place is where a VirtualService has a route: the index of the HTTP route, and of its match; -1 without a match.
type place struct{ http, match int }

// each yields each of routes, with its place.
func (r router) each(rule *networking.VirtualService) iter.Seq2[place, *routev3.Route] {
	return func(yield func(place, *routev3.Route) bool) {
		for i, http := range rule.GetHttp() {
			matches, none := http.Match, 0
			if len(matches) == 0 {
				matches, none = []*networking.HTTPMatchRequest{nil}, -1
			}
			for k, match := range matches {
				if match != nil && !r.applies(match) {
					continue
				}
				route := r.route(http, match)
				if !yield(place{i, k + none}, route) || catchesAll(route.Match) {
					return
				}
			}
		}
	}
}

// source contains the conditions of a match on the proxy that sends a request.
type source interface {
	GetPort() uint32
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
	GetGateways() []string
}

func (r router) applies(m source) bool {
	return (m.GetPort() == 0 || m.GetPort() == r.port) &&
		(len(m.GetGateways()) == 0 || slices.Contains(m.GetGateways(), r.gateway)) &&
		(m.GetSourceNamespace() == "" || m.GetSourceNamespace() == r.scope.Namespace) &&
		model.Selects(m.GetSourceLabels(), r.scope.Labels)
}

func catchesAll(m *routev3.RouteMatch) bool {
	return (m.GetPrefix() == "/" || m.GetSafeRegex().GetRegex() == ".*") && len(m.Headers)+len(m.QueryParameters)+len(m.DynamicMetadata) == 0
}

// catchAllLast moves the first route that matches every request to the end. Other routes of that kind would receive no
// requests and are left out.
func catchAllLast(routes []*routev3.Route) []*routev3.Route {
	var out, all []*routev3.Route
	for _, r := range routes {
		if catchesAll(r.Match) {
			all = append(all, r)
		} else {
			out = append(out, r)
		}
	}
	return append(out, all[:min(len(all), 1)]...)
}

func (r router) route(http *networking.HTTPRoute, match *networking.HTTPMatchRequest) *routev3.Route {
	out := &routev3.Route{
		Name: strings.Trim(http.Name+"."+match.GetName(), "."), Match: routeMatch(match, r.gateway != model.MeshGateway),
		StatPrefix: match.GetStatPrefix(),
	}
	setHeaders(out, http.Headers)
	switch {
	case http.Redirect != nil:
		out.Action = &routev3.Route_Redirect{Redirect: r.redirect(http.Redirect)}
	case http.DirectResponse != nil:
		out.Action = respond(http.DirectResponse)
	default:
		r.setAction(out, http)
	}
	filters := map[string]*anypb.Any{}
	if f := fault(http.Fault); f != nil {
		filters[faultFilter] = pack(f)
	}
	if c := cors(http.CorsPolicy); c != nil {
		filters[corsFilter] = pack(c)
	}
	if len(filters) > 0 {
		out.TypedPerFilterConfig = filters
	}
	return out
}

// setAction splits a route's traffic by weight. Without a destination, the route itself answers 503.
func (r router) setAction(out *routev3.Route, http *networking.HTTPRoute) {
	destinations := weighted(http.Route)
	if len(destinations) == 0 {
		out.Action = directResponse(503, "")
		return
	}
	action := &routev3.RouteAction{Timeout: http.Timeout, RequestMirrorPolicies: r.mirrors(http)}
	if action.Timeout == nil {
		action.Timeout = durationpb.New(0) // no timeout; if unset, Envoy's default is 15 seconds
	}
	for _, d := range destinations {
		if action.HashPolicy = r.hashPolicy(d.GetDestination()); action.HashPolicy != nil {
			break
		}
	}
	action.RetryPolicy = r.retry(http.Retries, action.HashPolicy)
	if len(destinations) == 1 {
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: r.clusterOf(destinations[0].GetDestination())}
		setHeaders(out, destinations[0].Headers)
		if host := hostOf(destinations[0].Headers); host != "" {
			action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: host}
		}
	} else {
		action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: r.split(destinations)}
	}
	if host := hostOf(http.Headers); host != "" {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: host}
	}
	rewrite(action, http.Rewrite)
	out.Action = &routev3.Route_Route{Route: action}
}

func rewrite(action *routev3.RouteAction, in *networking.HTTPRewrite) {
	if in == nil {
		return
	}
	if regex := in.UriRegexRewrite; regex != nil {
		action.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern: &matcherv3.RegexMatcher{Regex: regex.Match}, Substitution: regex.Rewrite,
		}
	} else {
		action.PrefixRewrite = in.Uri
	}
	if in.Authority != "" {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: in.Authority}
	}
}

// weighted removes destinations without weight. A single destination needs no weight.
func weighted[D interface{ GetWeight() int32 }](in []D) []D {
	if len(in) == 1 {
		return in
	}
	return slices.DeleteFunc(slices.Clone(in), func(d D) bool { return d.GetWeight() <= 0 })
}

func (r router) split(destinations []*networking.HTTPRouteDestination) *routev3.WeightedCluster {
	out := &routev3.WeightedCluster{}
	for _, d := range destinations {
		c := &routev3.WeightedCluster_ClusterWeight{
			Name:   r.clusterOf(d.GetDestination()),
			Weight: wrapperspb.UInt32(uint32(d.Weight)),
		}
		request, response := d.GetHeaders().GetRequest(), d.GetHeaders().GetResponse()
		c.RequestHeadersToAdd, c.RequestHeadersToRemove = headerOptions(request), removed(request)
		c.ResponseHeadersToAdd, c.ResponseHeadersToRemove = headerOptions(response), removed(response)
		if host := hostOf(d.Headers); host != "" {
			c.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: host}
		}
		out.Clusters = append(out.Clusters, c)
	}
	return out
}

// clusterOf returns the name of a destination's cluster. Without a port in d, the port is the only one of the service,
// else the one to which the request was sent. The cluster may not exist, for example if the subset does not exist:
// Envoy then answers 503.
func (r router) clusterOf(d *networking.Destination) string {
	host := d.GetHost()
	if s := r.scope.Service(host); s != nil {
		host = s.Host // of which that may be another name
	}
	return outboundName(r.portOf(d), d.GetSubset(), host)
}

func (r router) portOf(d *networking.Destination) uint32 {
	if n := d.GetPort().GetNumber(); n != 0 {
		return n
	}
	if s := r.scope.Service(d.GetHost()); s != nil && len(s.Ports) == 1 {
		return s.Ports[0].Number
	}
	return r.port
}

// hashPolicy returns the part of a request that selects its endpoint, by the DestinationRule of d.
func (r router) hashPolicy(d *networking.Destination) []*routev3.RouteAction_HashPolicy {
	return hashPolicy(r.policyOf(d).balancer)
}

func (r router) policyOf(d *networking.Destination) policy {
	s := r.scope.Service(d.GetHost())
	if s == nil {
		return policy{}
	}
	rule := r.scope.DestinationRule(s)
	var subset *networking.Subset
	if i := slices.IndexFunc(rule.GetSubsets(),
		func(s *networking.Subset) bool { return s.GetName() == d.GetSubset() }); i >= 0 {
		subset = rule.Subsets[i]
	}
	return policyOf(rule, subset, r.portOf(d), r.scope.Settings())
}

func (r router) redirect(in *networking.HTTPRedirect) *routev3.RedirectAction {
	out := &routev3.RedirectAction{HostRedirect: in.Authority}
	switch {
	case in.PrefixRewrite != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: in.PrefixRewrite}
	case strings.HasPrefix(in.Uri, "%PREFIX()%"):
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: strings.TrimPrefix(in.Uri,
			"%PREFIX()%")}
	case in.Uri != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: in.Uri}
	}
	if in.Scheme != "" {
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: in.Scheme}
	}
	out.PortRedirect = r.redirectPort(in)
	switch cmp.Or(in.RedirectCode, 301) {
	case 302:
		out.ResponseCode = routev3.RedirectAction_FOUND
	case 303:
		out.ResponseCode = routev3.RedirectAction_SEE_OTHER
	case 307:
		out.ResponseCode = routev3.RedirectAction_TEMPORARY_REDIRECT
	case 308:
		out.ResponseCode = routev3.RedirectAction_PERMANENT_REDIRECT
	}
	return out
}

// redirectPort returns the port in the URL of a redirect, or 0 for none: the default port of the scheme is left out.
func (r router) redirectPort(in *networking.HTTPRedirect) uint32 {
	var port uint32
	switch p := in.RedirectPort.(type) {
	case *networking.HTTPRedirect_Port:
		port = p.Port
	case *networking.HTTPRedirect_DerivePort:
		if p.DerivePort == networking.HTTPRedirect_FROM_REQUEST_PORT {
			port = r.port
		}
	}
	scheme := in.Scheme
	if scheme == "" && r.encrypted {
		scheme = "https"
	}
	if port == 443 && scheme == "https" || port == 80 && scheme != "https" {
		return 0
	}
	return port
}

func toCluster(name, cluster string) *routev3.Route {
	return &routev3.Route{
		Name:  name,
		Match: routeMatch(nil, false),
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
			Timeout:          durationpb.New(0),
		}},
	}
}

func respond(in *networking.HTTPDirectResponse) *routev3.Route_DirectResponse {
	out := directResponse(in.Status, in.GetBody().GetString_())
	if body := in.GetBody().GetBytes(); len(body) > 0 {
		out.DirectResponse.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: body}}
	}
	return out
}

func directResponse(status uint32, body string) *routev3.Route_DirectResponse {
	out := &routev3.DirectResponseAction{Status: status}
	if body != "" {
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}}
	}
	return &routev3.Route_DirectResponse{DirectResponse: out}
}

// routeMatch translates one match. Without a path, or without a match, it matches every path. The conditions of a match
// on the proxy (its gateway, labels, namespace, port) are evaluated before.
//
// Only gateways know the claims of tokens: elsewhere a match about them, also about one that is not there, matches nothing.
func routeMatch(in *networking.HTTPMatchRequest, gateway bool) *routev3.RouteMatch {
	out := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	switch uri := in.GetUri().GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: uri.Exact}
	case *networking.StringMatch_Prefix:
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: uri.Prefix}
	case *networking.StringMatch_Regex:
		if uri.Regex != "*" {
			out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: uri.Regex}}
		}
	}
	if in.GetIgnoreUriCase() && out.GetSafeRegex() == nil {
		out.CaseSensitive = wrapperspb.Bool(false)
	}
	headers := in.GetHeaders()
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if claim := claimMatch(name, headers[name]); claim != nil {
			out.DynamicMetadata = append(out.DynamicMetadata, claim)
			continue
		}
		out.Headers = append(out.Headers, headerMatch(name, headers[name]))
	}
	without := in.GetWithoutHeaders()
	for _, name := range slices.Sorted(maps.Keys(without)) {
		if claim := claimMatch(name, without[name]); claim != nil {
			claim.Invert = true
			out.DynamicMetadata = append(out.DynamicMetadata, claim)
			continue
		}
		m := headerMatch(name, without[name])
		m.InvertMatch = true
		// A header that is missing does not have the value either.
		m.TreatMissingHeaderAsEmpty = m.GetStringMatch() != nil
		out.Headers = append(out.Headers, m)
	}
	if len(out.DynamicMetadata) > 0 && !gateway {
		out.DynamicMetadata, out.Headers = nil, append(out.Headers, never()...)
	}
	for _, pseudo := range []struct {
		name  string
		match *networking.StringMatch
	}{{":method", in.GetMethod()}, {":authority", in.GetAuthority()}, {":scheme", in.GetScheme()}} {
		if pseudo.match.GetMatchType() != nil {
			out.Headers = append(out.Headers, headerMatch(pseudo.name, pseudo.match))
		}
	}
	query := in.GetQueryParams()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		out.QueryParameters = append(out.QueryParameters, queryMatch(name, query[name]))
	}
	return out
}

// claimMatch translates the match of a claim; nil for the name of a header. A list has a value if one of its items does.
func claimMatch(name string, in *networking.StringMatch) *matcherv3.MetadataMatcher {
	path, is := model.ParseRoutingClaim(name)
	if !is {
		return nil
	}
	return authz.Claim(path, stringMatcher(in))
}

// never returns matches that no request has both of, for Envoy and for gRPC, which ignores metadata.
func never() []*routev3.HeaderMatcher {
	there, missing := headerMatch("x-claims-of-a-token", nil), headerMatch("x-claims-of-a-token", nil)
	missing.InvertMatch = true
	return []*routev3.HeaderMatcher{there, missing}
}

// headerMatch translates the match of one header. Without a value, or with the regex "*", it only requires that the
// header is present.
func headerMatch(name string, in *networking.StringMatch) *routev3.HeaderMatcher {
	if value := stringMatcher(in); value != nil {
		return &routev3.HeaderMatcher{
			Name:                 name,
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: value},
		}
	}
	return &routev3.HeaderMatcher{
		Name:                 name,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
	}
}

func queryMatch(name string, in *networking.StringMatch) *routev3.QueryParameterMatcher {
	if value := stringMatcher(in); value != nil {
		return &routev3.QueryParameterMatcher{
			Name: name, QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_StringMatch{StringMatch: value},
		}
	}
	return &routev3.QueryParameterMatcher{
		Name: name, QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true},
	}
}

// stringMatcher returns nil if every value matches.
func stringMatcher(in *networking.StringMatch) *matcherv3.StringMatcher {
	switch m := in.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return exactly(m.Exact)
	case *networking.StringMatch_Prefix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: m.Prefix}}
	case *networking.StringMatch_Regex:
		if m.Regex != "*" {
			return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: m.Regex}}}
		}
	}
	return nil
}
