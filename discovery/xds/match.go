package xds

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"
)

// routeMatch translates one match; without a path, or without any match, it is every path.
func routeMatch(in *networking.HTTPMatchRequest) *routev3.RouteMatch {
	out := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	switch uri := in.GetUri().GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: uri.Exact}
	case *networking.StringMatch_Prefix:
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: uri.Prefix}
	case *networking.StringMatch_Regex:
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: uri.Regex}}
	}
	headers := in.GetHeaders()
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		out.Headers = append(out.Headers, headerMatch(name, headers[name]))
	}
	return out
}

// headerMatch translates the match of one header. No value, or the regex "*", asks only that it is there.
func headerMatch(name string, in *networking.StringMatch) *routev3.HeaderMatcher {
	out := &routev3.HeaderMatcher{
		Name:                 name,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
	}
	value := &matcherv3.StringMatcher{}
	switch m := in.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		value.MatchPattern = &matcherv3.StringMatcher_Exact{Exact: m.Exact}
	case *networking.StringMatch_Prefix:
		value.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: m.Prefix}
	case *networking.StringMatch_Regex:
		if m.Regex == "*" {
			return out
		}
		value.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: m.Regex}}
	default:
		return out
	}
	out.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: value}
	return out
}
