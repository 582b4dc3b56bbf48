package authz

import (
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
