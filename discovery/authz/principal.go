package authz

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	jwtFilter = "envoy.filters.http.jwt_authn"
	payload   = "payload" // the key of a token's claims in the metadata of that filter
)

// principals returns the conditions of tests about a request's source.
func (r rules) principals(p model.Policy, all []test) (and []*rbacv3.Principal, ok bool) {
	for _, t := range all {
		values, not, ok := r.readable(t)
		if !ok {
			return nil, false
		}
		if len(values) > 0 {
			and = append(and, r.principalOf(p, t.Condition, values))
		}
		if len(not) > 0 {
			and = append(and, &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: r.principalOf(p, t.Condition, not)}})
		}
	}
	return and, true
}

// principalOf matches a source that has any of some values.
func (r rules) principalOf(p model.Policy, c model.Condition, values []string) *rbacv3.Principal {
	var or []*rbacv3.Principal
	switch c.Attribute {
	case model.RequestAudiences:
		return claim([]string{"aud"}, values)
	case model.RequestPresenter:
		return claim([]string{"azp"}, values)
	case model.RequestClaims:
		return claim(c.Path, values)
	case model.SourcePrincipal:
		for _, v := range values {
			for _, name := range r.trusted(v) {
				or = append(or, certificate(principal(name)))
			}
		}
		return anyPrincipal(or)
	}
	for _, v := range values {
		switch c.Attribute {
		case model.SourceNamespace:
			or = append(or, certificate(namespace(v)))
		case model.SourceAccount:
			or = append(or, certificate(account(v, p.Namespace)))
		case model.SourceDomain:
			or = append(or, certificate(trustDomain(v)))
		case model.SourceIP:
			or = append(or, &rbacv3.Principal{Identifier: &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: addresses(v)}})
		case model.RemoteIP:
			or = append(or, &rbacv3.Principal{Identifier: &rbacv3.Principal_RemoteIp{RemoteIp: addresses(v)}})
		case model.Header:
			or = append(or, &rbacv3.Principal{Identifier: &rbacv3.Principal_Header{Header: header(c.Name, v, false)}})
		case model.RequestPrincipal:
			or = append(or, subject(v))
		}
	}
	return anyPrincipal(or)
}

// certificate matches a client by the name in its certificate, which it must have.
func certificate(name *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: name}}}
}

// claim matches a claim of the request's token: a text, or an item of a list of texts.
func claim(path []string, values []string) *rbacv3.Principal {
	var or []*matcherv3.ValueMatcher
	for _, v := range values {
		or = append(or, textValue(text(v)))
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_SourcedMetadata{SourcedMetadata: claimed(path, anyValue(or))}}
}

func claimed(path []string, value *matcherv3.ValueMatcher) *rbacv3.SourcedMetadata {
	return metadata(jwtFilter, append([]string{payload}, path...), anyValue([]*matcherv3.ValueMatcher{oneOf(value), value}))
}

// Claim matches requests whose token is sound and has a claim, with a text that m matches, in a list or by itself; with nil, with
// any value.
func Claim(path []string, m *matcherv3.StringMatcher) *matcherv3.MetadataMatcher {
	if m == nil {
		some := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}
		return metadata(jwtFilter, append([]string{payload}, path...), some).MetadataMatcher
	}
	return claimed(path, textValue(m)).MetadataMatcher
}

// subject matches ISSUER/SUBJECT of the request's token. An issuer may have slashes: the last one divides.
func subject(value string) *rbacv3.Principal {
	at := strings.LastIndexByte(value, '/')
	issuer, name := value[:max(at, 0)], value[at+1:]
	var iss, sub *matcherv3.StringMatcher
	switch {
	case value == "*":
		iss, sub = text("*"), text("*")
	case at < 0 && strings.HasPrefix(value, "*"):
		iss, sub = text("*"), text(value)
	case at < 0 && strings.HasSuffix(value, "*"):
		iss, sub = text(value), text("*")
	case at < 0: // it has no subject
		iss, sub = text(value), exactly("")
	case strings.HasPrefix(value, "*"):
		iss, sub = text(issuer), exactly(name)
	case strings.HasSuffix(value, "*"):
		iss, sub = exactly(issuer), text(name)
	default:
		iss, sub = exactly(issuer), exactly(name)
	}
	of := func(key string, m *matcherv3.StringMatcher) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_SourcedMetadata{SourcedMetadata: metadata(jwtFilter, []string{payload, key}, textValue(m))}}
	}
	return allPrincipals([]*rbacv3.Principal{of("iss", iss), of("sub", sub)})
}

func exactly(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

func anyPrincipal(all []*rbacv3.Principal) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: all}}}
}

func allPrincipals(all []*rbacv3.Principal) *rbacv3.Principal {
	if len(all) == 0 {
		all = []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}}
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: all}}}
}
