package explain

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// token is what a filter of tokens has found in a request. The zero value is none.
type token struct {
	found  bool
	claims map[string]any // nil if they are not known
}

// shown is what a provider of the filter says of a token; the zero value is that there is none at its places.
type shown struct {
	is     tristate // unknown for one that is sound if its signature and times are
	status int      // of a refusal
	why    string
}

// authentication is what a filter of tokens does with a request.
type authentication struct {
	token  token
	status int    // of a refusal; 0 if the request passes
	text   string // "" if there is nothing to say
	unless string // what may refuse it all the same
}

// tokenTime is what explain does not check: it has no clock, and leaves keys to Envoy.
const tokenTime = "a check of the token's signature and times, which explain does not do"

// authenticate judges the token of a request: its issuer, its audiences and that it can be read. What it says of itself counts as true.
func authenticate(p *jwtv3.JwtAuthentication, r Request) authentication {
	if _, asks := r.header("access-control-request-method"); asks && r.Method == "OPTIONS" && p.BypassCorsPreflight {
		return authentication{}
	}
	states, texts, names := map[string]shown{}, []string{}, slices.Sorted(maps.Keys(p.Providers))
	for _, name := range names {
		texts = append(texts, tokensOf(p.Providers[name], r)...)
	}
	slices.Sort(texts)
	switch texts = slices.Compact(texts); {
	case len(texts) == 0:
		return authentication{}
	case len(texts) > 1:
		return authentication{token: token{found: true}, text: "the request has several tokens, which explain does not judge", unless: "a check of its tokens"}
	}
	claims, fault := readToken(texts[0])
	var left map[string]any
	for _, name := range names {
		if provider := p.Providers[name]; len(tokensOf(provider, r)) > 0 {
			if states[name] = stateOf(provider, claims, fault); states[name].is == unknown {
				left = spread(claims, provider.GetNormalizePayloadInMetadata().GetSpaceDelimitedClaims())
			}
		}
	}
	switch s := required(p, states); s.is {
	case no:
		return authentication{status: s.status, text: s.why}
	default:
		return authentication{token{true, left}, 0, "the token " + describe(claims) + " passes if it is sound", tokenTime}
	}
}

// describe says whose a token is.
func describe(claims map[string]any) string {
	text := fmt.Sprintf("of issuer %v", cmp.Or[any](claims["iss"], "none"))
	if sub, has := claims["sub"]; has {
		text += fmt.Sprintf(", subject %v", sub)
	}
	if end, is := claims["exp"].(float64); is {
		text += ", until " + time.Unix(int64(end), 0).UTC().Format(time.RFC3339)
	}
	return text
}

// tokensOf returns what a request has at the places of a provider.
func tokensOf(p *jwtv3.JwtProvider, r Request) (out []string) {
	headers, params := p.FromHeaders, p.FromParams
	if len(headers)+len(params)+len(p.FromCookies) == 0 {
		headers, params = []*jwtv3.JwtHeader{{Name: "authorization", ValuePrefix: "Bearer "}}, []string{"access_token"}
	}
	for _, h := range headers {
		for _, value := range r.Header[strings.ToLower(h.Name)] {
			if _, text, found := strings.Cut(value, h.ValuePrefix); found {
				out = append(out, text)
			}
		}
	}
	for _, name := range params {
		if value, found := r.query(name); found {
			out = append(out, value)
		}
	}
	cookies, _ := r.header("cookie")
	for part := range strings.SplitSeq(cookies, ";") {
		if name, value, found := strings.Cut(strings.TrimSpace(part), "="); found && slices.Contains(p.FromCookies, name) {
			out = append(out, value)
		}
	}
	return out
}

// readToken returns the claims of a token, or why it has none.
func readToken(text string) (claims map[string]any, fault string) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, "the token is not HEADER.CLAIMS.SIGNATURE"
	}
	for i, what := range []string{"header", "claims"} {
		claims = nil
		data, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(data, &claims) != nil || claims == nil {
			return nil, "the " + what + " of the token cannot be read"
		}
	}
	return claims, ""
}

// stateOf judges a token by the rule of a provider.
func stateOf(p *jwtv3.JwtProvider, claims map[string]any, fault string) shown {
	issuer, _ := claims["iss"].(string)
	switch {
	case fault != "":
		return shown{no, 401, fault}
	case p.Issuer == "":
		return shown{no, 401, "a rule of tokens that cannot be read refuses each"}
	case issuer != p.Issuer:
		return shown{no, 401, fmt.Sprintf("the token is of issuer %q, want %q", issuer, p.Issuer)}
	}
	audiences := textsOf(claims["aud"])
	if len(p.Audiences) > 0 && !slices.ContainsFunc(audiences, func(a string) bool {
		return slices.ContainsFunc(p.Audiences, func(want string) bool { return bareAudience(a) == bareAudience(want) })
	}) {
		return shown{no, 403, fmt.Sprintf("the token is for the audience %q, want one of %q", audiences, p.Audiences)}
	}
	return shown{is: unknown}
}

// bareAudience returns an audience as Envoy compares it.
func bareAudience(a string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if rest, found := strings.CutPrefix(a, scheme); found {
			a = rest
			break
		}
	}
	return strings.TrimSuffix(a, "/")
}

// textsOf returns a text, or the texts of a list.
func textsOf(value any) (out []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if text, is := one.(string); is {
				out = append(out, text)
			}
		}
	}
	return out
}

// required judges what the filter requires of each request.
func required(p *jwtv3.JwtAuthentication, states map[string]shown) shown {
	if len(p.Rules) == 0 {
		return shown{is: yes}
	}
	switch q := p.Rules[0].RequirementType.(type) {
	case *jwtv3.RequirementRule_RequirementName:
		return require(p.RequirementMap[q.RequirementName], states)
	case *jwtv3.RequirementRule_Requires:
		return require(q.Requires, states)
	}
	return shown{is: yes}
}

func require(q *jwtv3.JwtRequirement, states map[string]shown) shown {
	switch q := q.GetRequiresType().(type) {
	case *jwtv3.JwtRequirement_ProviderName:
		s, found := states[q.ProviderName]
		if !found {
			return shown{no, 401, "the token is not where its rule looks for it"}
		}
		return s
	case *jwtv3.JwtRequirement_RequiresAny:
		return requireAny(q.RequiresAny.Requirements, states)
	case *jwtv3.JwtRequirement_RequiresAll:
		out := shown{is: yes}
		for _, one := range q.RequiresAll.Requirements {
			switch s := require(one, states); {
			case s.is == no:
				return s
			case s.is == unknown:
				out = s
			}
		}
		return out
	}
	return shown{is: yes}
}

// requireAny holds if one holds, or if none of their providers has a token and that is allowed.
func requireAny(all []*jwtv3.JwtRequirement, states map[string]shown) shown {
	out := shown{is: no}
	none, may := true, false
	for _, one := range all {
		if one.GetAllowMissing() != nil {
			may = true
			continue
		}
		_, found := states[one.GetProviderName()]
		none = none && one.GetProviderName() != "" && !found
		switch s := require(one, states); {
		case s.is == yes:
			return s
		case s.is == unknown:
			out = s
		case out.is == no && (out.status != 403):
			out = s
		}
	}
	if may && none {
		return shown{is: yes}
	}
	return out
}

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
func matchesValue(m *matcherv3.ValueMatcher, value any) tristate {
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
