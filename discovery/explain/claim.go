package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Where the filter of tokens leaves the claims of a sound one.
const (
	tokenFilter  = "envoy.filters.http.jwt_authn"
	tokenPayload = "payload"
)

// spread returns claims as the filter leaves them: the texts of some are lists with spaces.
func spread(claims map[string]any, spaced []string) map[string]any {
	out := maps.Clone(claims)
	for _, name := range spaced {
		if text, is := out[name].(string); is {
			list := []any{}
			for _, word := range strings.Fields(text) {
				list = append(list, word)
			}
			out[name] = list
		}
	}
	return out
}

// has judges a condition on the claims of a token.
func (t token) has(m *matcherv3.MetadataMatcher) held {
	switch {
	case m.GetFilter() != tokenFilter || len(m.Path) < 2 || m.Path[0].GetKey() != tokenPayload:
		return held{unknown, "explain does not judge metadata of " + m.GetFilter()}
	case !t.found:
		return held{no, "the request has no token, want one with the claim " + strings.TrimPrefix(claim(m), tokenPayload+".")}
	case t.claims == nil:
		return held{unknown, "the claims of its tokens are not known"}
	}
	var value any = t.claims
	name := strings.TrimPrefix(claim(m), tokenPayload+".")
	for _, part := range m.Path[1:] {
		fields, _ := value.(map[string]any)
		value = fields[part.GetKey()]
	}
	reason := fmt.Sprintf("the token has no claim %s, want %s", name, wantedValue(m.Value))
	if value != nil {
		reason = fmt.Sprintf("the token's claim %s is %v, want %s", name, value, wantedValue(m.Value))
	}
	return held{matchesValue(m.Value, value), reason}
}

// matchesValue judges a value of JSON, nil for none.
func matchesValue(m *matcherv3.ValueMatcher, value any) tri {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_PresentMatch:
		return of(p.PresentMatch && value != nil)
	case *matcherv3.ValueMatcher_StringMatch:
		text, is := value.(string)
		return of(is && matches(p.StringMatch, text))
	case *matcherv3.ValueMatcher_ListMatch:
		list, is := value.([]any)
		if !is {
			return no
		}
		out := no
		for _, one := range list {
			switch matchesValue(p.ListMatch.GetOneOf(), one) {
			case yes:
				return yes
			case unknown:
				out = unknown
			}
		}
		return out
	case *matcherv3.ValueMatcher_OrMatch:
		out := no
		for _, one := range p.OrMatch.ValueMatchers {
			switch matchesValue(one, value) {
			case yes:
				return yes
			case unknown:
				out = unknown
			}
		}
		return out
	}
	return unknown
}

// wantedValue says what a matcher of claims wants, each text once.
func wantedValue(m *matcherv3.ValueMatcher) string {
	var all []string
	var collect func(*matcherv3.ValueMatcher)
	collect = func(m *matcherv3.ValueMatcher) {
		switch p := m.GetMatchPattern().(type) {
		case *matcherv3.ValueMatcher_PresentMatch:
			all = append(all, "any")
		case *matcherv3.ValueMatcher_StringMatch:
			all = append(all, wanted(p.StringMatch))
		case *matcherv3.ValueMatcher_ListMatch:
			collect(p.ListMatch.GetOneOf())
		case *matcherv3.ValueMatcher_OrMatch:
			for _, one := range p.OrMatch.ValueMatchers {
				collect(one)
			}
		}
	}
	collect(m)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " or ")
}
