package model

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The values of policies' conditions. What these functions refuse, nobody knows the meaning of: validation reports it, and
// the translation takes the condition at its strictest.

// Condition is what a rule of an AuthorizationPolicy asks about a request.
type Condition struct {
	Attribute Attribute
	Name      string   // of the header; of the filter, for EnvoyFilterValue
	Path      []string // to the claim, or the value of the filter
}

// Attribute is one of the properties that conditions compare, by its key in `when`.
type Attribute string

const (
	Header           Attribute = "request.headers"
	SourceIP         Attribute = "source.ip"
	RemoteIP         Attribute = "remote.ip"
	SourceNamespace  Attribute = "source.namespace"
	SourceAccount    Attribute = "source.serviceAccount"
	SourcePrincipal  Attribute = "source.principal"
	SourceDomain     Attribute = "source.trustDomain"
	RequestPrincipal Attribute = "request.auth.principal"
	RequestAudiences Attribute = "request.auth.audiences"
	RequestPresenter Attribute = "request.auth.presenter"
	RequestClaims    Attribute = "request.auth.claims"
	DestinationIP    Attribute = "destination.ip"
	DestinationPort  Attribute = "destination.port"
	ServerNameAsked  Attribute = "connection.sni"
	EnvoyFilterValue Attribute = "experimental.envoy.filters"

	// These are not keys: fields of an operation only.
	Host   Attribute = "hosts"
	Method Attribute = "methods"
	Path   Attribute = "paths"
)

// ConditionKeys are the keys that `when` may have.
func ConditionKeys() []string {
	return []string{
		"request.headers[NAME]", "source.ip", "remote.ip", "source.namespace", "source.serviceAccount", "source.principal",
		"source.trustDomain", "request.auth.principal", "request.auth.audiences", "request.auth.presenter", "request.auth.claims[NAME]",
		"destination.ip", "destination.port", "connection.sni", "experimental.envoy.filters.FILTER[KEY]",
	}
}

// HTTP reports whether only requests of HTTP have the attribute.
func (a Attribute) HTTP() bool {
	switch a {
	case Host, Method, Path, Header, RequestPrincipal, RequestAudiences, RequestPresenter, RequestClaims:
		return true
	}
	return false
}

var conditionHeader = regexp.MustCompile("^:?[-!#$%&'*+.^_`|~0-9a-zA-Z]+$")

// ParseCondition reads a key of `when`.
func ParseCondition(key string) (Condition, bool) {
	switch a := Attribute(key); a {
	case SourceIP, RemoteIP, SourceNamespace, SourceAccount, SourcePrincipal, SourceDomain, RequestPrincipal, RequestAudiences,
		RequestPresenter, DestinationIP, DestinationPort, ServerNameAsked:
		return Condition{Attribute: a}, true
	}
	if name, ok := bracketed(key, string(Header)); ok {
		return Condition{Attribute: Header, Name: name}, conditionHeader.MatchString(name)
	}
	if rest, ok := strings.CutPrefix(key, string(RequestClaims)); ok {
		path := claimPath(rest)
		return Condition{Attribute: RequestClaims, Path: path}, len(path) > 0
	}
	if rest, ok := strings.CutPrefix(key, "experimental."); ok && strings.HasPrefix(key, string(EnvoyFilterValue)+".") {
		filter, name, found := strings.Cut(strings.TrimSuffix(rest, "]"), "[")
		return Condition{Attribute: EnvoyFilterValue, Name: filter, Path: []string{name}}, found && strings.HasSuffix(rest, "]") && name != ""
	}
	return Condition{}, false
}

// ParseRoutingClaim reads the name of a header in a match of a VirtualService that stands for a claim of the request's token:
// @request.auth.claims.a.b or @request.auth.claims[a][b]. path is nil if it names none; is reports whether it was meant to.
func ParseRoutingClaim(name string) (path []string, is bool) {
	rest, is := strings.CutPrefix(name, "@"+string(RequestClaims))
	dotted, ok := strings.CutPrefix(rest, ".")
	if !ok {
		return claimPath(rest), is
	}
	if path = strings.Split(dotted, "."); slices.Contains(path, "") || strings.ContainsAny(dotted, "[]") {
		return nil, is
	}
	return path, is
}

func bracketed(key, before string) (string, bool) {
	rest, ok := strings.CutPrefix(key, before+"[")
	if !ok || !strings.HasSuffix(rest, "]") {
		return "", false
	}
	return strings.TrimSuffix(rest, "]"), true
}

// claimPath returns the names of "[a][b]"; what has brackets in it, and is no such list, is one name, as in Istio.
func claimPath(text string) []string {
	inner, ok := bracketed(text, "")
	if !ok || inner == "" {
		return nil
	}
	path := strings.Split(inner, "][")
	for _, name := range path {
		if name == "" || strings.ContainsAny(name, "[]") {
			return []string{inner}
		}
	}
	return path
}

// Values of conditions are kept this short, so that Envoy takes the expressions that are made of them.
const maxConditionValue = 2048

// ConditionFault returns why a value cannot be compared with an attribute, "" if it can.
func ConditionFault(a Attribute, value string) string {
	switch {
	case value == "":
		return "is empty"
	case len(value) > maxConditionValue:
		return fmt.Sprintf("has %d bytes, want at most %d", len(value), maxConditionValue)
	case strings.ContainsAny(value, "\x00\r\n"):
		return fmt.Sprintf("is %q, want no line breaks and no NUL", value)
	}
	switch a {
	case SourceIP, RemoteIP, DestinationIP:
		if _, ok := ParseRange(value); !ok {
			return fmt.Sprintf("is %q, want an IP address, or a range such as 10.0.0.0/8", value)
		}
	case DestinationPort:
		if _, err := strconv.ParseUint(value, 10, 16); err != nil {
			return fmt.Sprintf("is %q, want a port, 0 to 65535", value)
		}
	case SourceAccount:
		if namespace, name, two := strings.Cut(value, "/"); strings.ContainsAny(value, "*") || strings.Contains(name, "/") ||
			two && (namespace == "" || name == "") || len(value) > 320 {
			return fmt.Sprintf("is %q, want ACCOUNT or NAMESPACE/ACCOUNT, without *, at most 320 bytes", value)
		}
	case Path:
		_, _, fault := ParsePathTemplate(value)
		return fault
	}
	return ""
}

// ParseRange reads an IP address, or a range of addresses. IPv4 addresses in IPv6 are IPv4: as those Envoy sees them.
func ParseRange(text string) (netip.Prefix, bool) {
	ip, err := netip.ParseAddr(text)
	if err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), err == nil
}

// pathSegment is a literal segment of a path template, as Envoy takes it.
var pathSegment = regexp.MustCompile(`^[-a-zA-Z0-9._~%!$&'()+,;:@=]+$`)

// ParsePathTemplate returns Envoy's form of a path with the operators {*}, one segment, and {**}, any number of them, which
// is the last operator; template is false for a path without either.
func ParsePathTemplate(path string) (envoys string, template bool, fault string) {
	if template = strings.Contains(path, "{*}") || strings.Contains(path, "{**}"); !template && !strings.ContainsAny(path, "{}") {
		return "", false, ""
	}
	rest, rooted := strings.CutPrefix(path, "/")
	if !rooted {
		return "", template, fmt.Sprintf("is %q, want / before a path with {*} or {**}", path)
	}
	ended := false
	for segment := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), "/") {
		switch {
		case ended && (segment == "{*}" || segment == "{**}"):
			return "", template, fmt.Sprintf("is %q, want no {*} or {**} behind {**}", path)
		case segment == "{**}":
			ended = true
		case segment == "{*}", pathSegment.MatchString(segment):
		default:
			return "", template, fmt.Sprintf("is %q, and its part %q is neither {*}, {**} nor plain", path, segment)
		}
	}
	return strings.NewReplacer("{*}", "*", "{**}", "**").Replace(path), template, ""
}
