package authz

import (
	"regexp"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// permissions returns the conditions of tests about a request's destination and content.
func (r rules) permissions(all []test) (and []*rbacv3.Permission, ok bool) {
	for _, t := range all {
		values, not, ok := r.readable(t)
		if !ok {
			return nil, false
		}
		if len(values) > 0 {
			and = append(and, anyPermission(permissionsOf(t.Condition, values)))
		}
		if len(not) > 0 {
			and = append(and, &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: anyPermission(permissionsOf(t.Condition, not))}})
		}
	}
	return and, true
}

func permissionsOf(c model.Condition, values []string) (out []*rbacv3.Permission) {
	for _, v := range values {
		out = append(out, permissionOf(c, v))
	}
	return out
}

func permissionOf(c model.Condition, value string) *rbacv3.Permission {
	switch c.Attribute {
	case model.Host:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: header(":authority", value, true)}}
	case model.Method:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: header(":method", value, false)}}
	case model.Path:
		if template, is, _ := model.ParsePathTemplate(value); is {
			return &rbacv3.Permission{Rule: &rbacv3.Permission_UriTemplate{UriTemplate: &corev3.TypedExtensionConfig{
				Name: "uri-template", TypedConfig: pack(&templatev3.UriTemplateMatchConfig{PathTemplate: template}),
			}}}
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
			Rule: &matcherv3.PathMatcher_Path{Path: text(value)},
		}}}
	case model.DestinationIP:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationIp{DestinationIp: addresses(value)}}
	case model.DestinationPort:
		port, _ := strconv.ParseUint(value, 10, 16) // it was found to be one
		return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationPort{DestinationPort: uint32(port)}}
	case model.ServerNameAsked:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_RequestedServerName{RequestedServerName: text(value)}}
	default: // EnvoyFilterValue: [X] is an item of a list
		m := textValue(text(value))
		if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") && len(value) > 2 {
			m = oneOf(textValue(text(value[1 : len(value)-1])))
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_SourcedMetadata{SourcedMetadata: metadata(c.Name, c.Path, m)}}
	}
}

func anyPermission(all []*rbacv3.Permission) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{Rules: all}}}
}

func allPermissions(all []*rbacv3.Permission) *rbacv3.Permission {
	if len(all) == 0 {
		all = []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}}
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: all}}}
}

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

// Claim matches requests whose token is sound and has a claim, with a text that m matches, in a list or by itself; with
// nil, with any value.
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

// text matches a value of Istio's: X, the prefix X*, the suffix *X; * is any text but the empty one.
func text(value string) *matcherv3.StringMatcher {
	begin, prefix := strings.CutSuffix(value, "*")
	end, suffix := strings.CutPrefix(value, "*")
	switch {
	case value == "*":
		return expression(".+")
	case suffix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: end}}
	case prefix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: begin}}
	default:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: value}}
	}
}

// expression matches whole texts by an expression of RE2. What a policy says must be quoted in it.
func expression(re string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: re}}}
}

const identity = "spiffe://"

// principal matches the URI of a certificate.
func principal(value string) *matcherv3.StringMatcher {
	m := text(value)
	switch p := m.MatchPattern.(type) {
	case *matcherv3.StringMatcher_Suffix:
		return expression(identity + ".*" + regexp.QuoteMeta(p.Suffix))
	case *matcherv3.StringMatcher_Prefix:
		p.Prefix = identity + p.Prefix
	case *matcherv3.StringMatcher_Exact:
		p.Exact = identity + p.Exact
	}
	return m
}

// namespace matches the URI of a certificate by its namespace, in which each * stands for any text.
func namespace(value string) *matcherv3.StringMatcher {
	if !strings.Contains(value, "*") {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: "/ns/" + value + "/"}}
	}
	return expression(".*/ns/" + strings.ReplaceAll(regexp.QuoteMeta(value), `\*`, ".*") + "/.*")
}

// trustDomain matches the URI of a certificate by its trust domain.
func trustDomain(value string) *matcherv3.StringMatcher {
	begin, prefix := strings.CutSuffix(value, "*")
	end, suffix := strings.CutPrefix(value, "*")
	switch {
	case suffix && end != "":
		return expression(identity + "[^/]*" + regexp.QuoteMeta(end) + "/.*")
	case prefix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: identity + begin}}
	default:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: identity + value + "/"}}
	}
}

// account matches the URI of a certificate by its service account, of a namespace if it names none.
func account(value, namespace string) *matcherv3.StringMatcher {
	if of, name, found := strings.Cut(value, "/"); found {
		namespace, value = of, name
	}
	return expression(identity + ".+/ns/" + regexp.QuoteMeta(namespace) + "/(.+/|)sa/" + regexp.QuoteMeta(value) + "(/.+)?")
}

// header matches a header; hosts are compared without regard to case.
func header(name, value string, ignoreCase bool) *routev3.HeaderMatcher {
	if value == "*" {
		return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
	}
	m := text(value)
	m.IgnoreCase = ignoreCase
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m}}
}

// addresses returns a range that was found to be one.
func addresses(value string) *corev3.CidrRange {
	p, _ := model.ParseRange(value)
	return &corev3.CidrRange{AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))}
}

// metadata matches a value that a filter has left.
func metadata(filter string, path []string, value *matcherv3.ValueMatcher) *rbacv3.SourcedMetadata {
	out := &matcherv3.MetadataMatcher{Filter: filter, Value: value}
	for _, key := range path {
		out.Path = append(out.Path, &matcherv3.MetadataMatcher_PathSegment{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}})
	}
	return &rbacv3.SourcedMetadata{MetadataMatcher: out}
}

func textValue(m *matcherv3.StringMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: m}}
}

func oneOf(m *matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{
		MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: m},
	}}}
}

func anyValue(all []*matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	if len(all) == 1 {
		return all[0]
	}
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: &matcherv3.OrMatcher{ValueMatchers: all}}}
}
