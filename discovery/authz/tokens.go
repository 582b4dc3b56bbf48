package authz

import (
	"cmp"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	"google.golang.org/protobuf/types/known/emptypb"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// noKeys is a key set by which no token is sound: Envoy takes none that is empty. The point is made of a text, so that
// nobody knows its private key: a test makes it again.
const noKeys = `{"keys":[{"kty":"EC","crv":"P-256","x":"Mki1sfaDENH3qyouI01WzUAXDlooWvgseqfwrE6FN9E","y":"HlROMPezoWh6iwuJ9nFysnQ_7bpju4E9SO7qzj-_g8Q"}]}`

const tokens = "tokens" // the name of what is required of each request

// authenticate returns the filter that checks the tokens of requests; false if no policy asks for one. A request
// without a token passes: to refuse it is the business of an AuthorizationPolicy. A token must be sound by the rule of
// its issuer.
//
// A rule without an issuer stands for one that cannot be read: every token at one of its places is refused.
func authenticate(policies []model.Policy, gateway bool) (Filter, bool) {
	var all []*security.JWTRule
	for _, p := range policies {
		all = append(all, p.Tokens.GetJwtRules()...)
	}
	if len(all) == 0 {
		return Filter{}, false
	}
	slices.SortStableFunc(all, func(a, b *security.JWTRule) int { return cmp.Compare(a.GetIssuer(), b.GetIssuer()) })
	c := &jwtv3.JwtAuthentication{Providers: map[string]*jwtv3.JwtProvider{}, BypassCorsPreflight: true}
	var one, each, unread []*jwtv3.JwtRequirement
	for i, rule := range all {
		name := fmt.Sprintf("origins-%d", i)
		c.Providers[name] = provider(rule)
		c.Providers[name].ClearRouteCache = gateway
		sound := &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: name}}
		orNone := requiresAny(sound, &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_AllowMissing{AllowMissing: &emptypb.Empty{}}})
		if rule.GetIssuer() == "" {
			unread = append(unread, orNone)
			continue
		}
		one, each = append(one, sound), append(each, orNone)
	}
	switch {
	case len(each) > 1: // one is enough: rules whose tokens are at the same place refuse those of each other
		unread = append(unread, requiresAny(append(one, requiresAll(each))...))
	default:
		unread = append(unread, each...)
	}
	c.RequirementMap = map[string]*jwtv3.JwtRequirement{tokens: requiresAll(unread)}
	for _, match := range []*routev3.RouteMatch{ // CONNECT may have no path
		{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""}},
		{PathSpecifier: &routev3.RouteMatch_ConnectMatcher_{ConnectMatcher: &routev3.RouteMatch_ConnectMatcher{}}},
	} {
		c.Rules = append(c.Rules, &jwtv3.RequirementRule{Match: match, RequirementType: &jwtv3.RequirementRule_RequirementName{RequirementName: tokens}})
	}
	return Filter{jwtFilter, pack(c)}, true
}

func requiresAny(all ...*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAny{RequiresAny: &jwtv3.JwtRequirementOrList{Requirements: all}}}
}

func requiresAll(all []*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	if len(all) == 1 {
		return all[0]
	}
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAll{RequiresAll: &jwtv3.JwtRequirementAndList{Requirements: all}}}
}

// provider returns Envoy's form of a rule. Claims go to the metadata in which the conditions of policies look for them.
func provider(rule *security.JWTRule) *jwtv3.JwtProvider {
	keys, fault, _ := model.ReadKeySet(rule.GetJwks())
	if fault != "" {
		keys = noKeys
	}
	p := &jwtv3.JwtProvider{
		Issuer: rule.GetIssuer(), Audiences: rule.GetAudiences(), Forward: rule.GetForwardOriginalToken(),
		FromParams: rule.GetFromParams(), FromCookies: rule.GetFromCookies(), ForwardPayloadHeader: rule.GetOutputPayloadToHeader(),
		PayloadInMetadata: payload,
		NormalizePayloadInMetadata: &jwtv3.JwtProvider_NormalizePayload{
			SpaceDelimitedClaims: append([]string{"permission", "scope"}, rule.GetSpaceDelimitedClaims()...),
		},
		JwksSourceSpecifier: &jwtv3.JwtProvider_LocalJwks{LocalJwks: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: keys}}},
	}
	for _, h := range rule.GetFromHeaders() {
		p.FromHeaders = append(p.FromHeaders, &jwtv3.JwtHeader{Name: h.GetName(), ValuePrefix: h.GetPrefix()})
	}
	for _, c := range rule.GetOutputClaimToHeaders() {
		p.ClaimToHeaders = append(p.ClaimToHeaders, &jwtv3.JwtClaimToHeader{HeaderName: c.GetHeader(), ClaimName: c.GetClaim()})
	}
	if rule.GetIssuer() == "" { // these are the places of a rule that names none
		p.FromHeaders = append(p.FromHeaders, &jwtv3.JwtHeader{Name: "Authorization", ValuePrefix: "Bearer "})
		p.FromParams = append(slices.Clip(p.FromParams), "access_token")
	}
	return p
}
