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
)

// token is what a filter of tokens has found in a request. The zero value is none.
type token struct {
	found  bool
	claims map[string]any // nil if they are not known
}

// shown is what a provider of the filter says of a token; the zero value is that there is none at its places.
type shown struct {
	is     tri // unknown for one that is sound if its signature and times are
	status int // of a refusal
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
