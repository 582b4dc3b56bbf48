package xds

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/model"
)

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
