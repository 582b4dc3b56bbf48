package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
)

// call is what a server's proxy knows of a request.
type call struct {
	Request
	secure    bool       // mutual TLS
	principal string     // of the client's certificate, "spiffe://..."; "" if it is not known
	from      netip.Addr // from which the client's proxy connects
	server    string     // SNI
	token     token
}

// tristate is whether a condition holds: what is not known is neither.
type tristate int

const (
	unknown tristate = iota
	no
	yes
)

func of(holds bool) tristate {
	if holds {
		return yes
	}
	return no
}

func (t tristate) not() tristate { return map[tristate]tristate{unknown: unknown, no: yes, yes: no}[t] }

// held is a condition with the reason why it does not hold.
type held struct {
	is     tristate
	reason string
}

func (h held) inverted(reason string) held { return held{h.is.not(), reason} }

// allOf returns the first condition that does not hold, else one that is not known.
func allOf(all []held) held {
	out := held{is: yes}
	for _, h := range all {
		if h.is == no {
			return h
		}
		if h.is == unknown && out.is == yes {
			out = h
		}
	}
	return out
}

// anyOf returns that one holds, else one that is not known, else the reasons of all.
func anyOf(all []held) held {
	out, reasons := held{is: no}, []string(nil)
	for _, h := range all {
		switch {
		case h.is == yes:
			return h
		case h.is == unknown:
			out = h
		case !slices.Contains(reasons, h.reason):
			reasons = append(reasons, h.reason)
		}
	}
	if out.is == no {
		out.reason = strings.Join(reasons, ", or ")
	}
	return out
}

func each[T any](list []T, judge func(T) held) (out []held) {
	for _, one := range list {
		out = append(out, judge(one))
	}
	return out
}

// refused says what a filter of policies does with a call. by is the policy that denies it, "" if no policy allows it; passed are those that do not
// match; unjudged are policies that may decide otherwise.
func refused(r *rbacv3.RBAC, c call) (refuses bool, by string, passed []Passed, unjudged []string) {
	if r == nil || r.Action == rbacv3.RBAC_LOG {
		return false, "", nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Policies)) {
		p := r.Policies[name]
		h := allOf([]held{anyOf(each(p.Permissions, c.permission)), anyOf(each(p.Principals, c.source))})
		switch {
		case h.is == yes && r.Action == rbacv3.RBAC_DENY:
			return true, name, passed, nil
		case h.is == yes:
			return false, name, passed, nil
		case h.is == unknown:
			unjudged = append(unjudged, name)
		default:
			passed = append(passed, Passed{Name: name, Reason: h.reason})
		}
	}
	return r.Action == rbacv3.RBAC_ALLOW && len(unjudged) == 0, "", passed, unjudged
}

// permission judges a condition on the request's destination and content.
func (c call) permission(p *rbacv3.Permission) held {
	switch r := p.Rule.(type) {
	case *rbacv3.Permission_Any:
		return held{is: of(r.Any)}
	case *rbacv3.Permission_AndRules:
		return allOf(each(r.AndRules.Rules, c.permission))
	case *rbacv3.Permission_OrRules:
		return anyOf(each(r.OrRules.Rules, c.permission))
	case *rbacv3.Permission_NotRule:
		return c.permission(r.NotRule).inverted("it is what the rule excludes")
	case *rbacv3.Permission_Header:
		reason := headerMismatch(r.Header, c.Request)
		return held{of(reason == ""), strings.TrimPrefix(reason, "header :")}
	case *rbacv3.Permission_UrlPath:
		path := c.bare()
		return held{of(matches(r.UrlPath.GetPath(), path)), fmt.Sprintf("the path is %s, want %s", path, wanted(r.UrlPath.GetPath()))}
	case *rbacv3.Permission_DestinationPort:
		return held{of(uint32(c.To.Port()) == r.DestinationPort), fmt.Sprintf("the port is %d, want %d", c.To.Port(), r.DestinationPort)}
	case *rbacv3.Permission_DestinationIp:
		return within("the server's address", c.To.Addr(), r.DestinationIp)
	case *rbacv3.Permission_RequestedServerName:
		return held{of(matches(r.RequestedServerName, c.server)), fmt.Sprintf("the server name is %q, want %s", c.server, wanted(r.RequestedServerName))}
	}
	return held{unknown, fmt.Sprintf("explain does not judge %T", p.Rule)}
}

// source judges a condition on the client.
func (c call) source(p *rbacv3.Principal) held {
	switch r := p.Identifier.(type) {
	case *rbacv3.Principal_Any:
		return held{is: of(r.Any)}
	case *rbacv3.Principal_AndIds:
		return allOf(each(r.AndIds.Ids, c.source))
	case *rbacv3.Principal_OrIds:
		return anyOf(each(r.OrIds.Ids, c.source))
	case *rbacv3.Principal_NotId:
		return c.source(r.NotId).inverted("the client is what the rule excludes")
	case *rbacv3.Principal_Header:
		reason := headerMismatch(r.Header, c.Request)
		return held{of(reason == ""), reason}
	case *rbacv3.Principal_Authenticated_:
		want := wanted(r.Authenticated.GetPrincipalName())
		switch {
		case !c.secure:
			return held{no, "the client has no certificate, since it speaks no mutual TLS, want " + want}
		case c.principal == "":
			return held{unknown, "the client's identity is not known"}
		}
		return held{of(matches(r.Authenticated.GetPrincipalName(), c.principal)), fmt.Sprintf("the client is %s, want %s", c.principal, want)}
	case *rbacv3.Principal_DirectRemoteIp:
		return within("the client's address", c.from, r.DirectRemoteIp)
	case *rbacv3.Principal_RemoteIp:
		if _, forwarded := c.header("x-forwarded-for"); forwarded {
			return held{unknown, "explain does not judge x-forwarded-for"}
		}
		return within("the client's address", c.from, r.RemoteIp)
	case *rbacv3.Principal_SourcedMetadata:
		return c.token.has(r.SourcedMetadata.GetMetadataMatcher())
	}
	return held{unknown, fmt.Sprintf("explain does not judge %T", p.Identifier)}
}

func within(what string, ip netip.Addr, r *corev3.CidrRange) held {
	first, err := netip.ParseAddr(r.AddressPrefix)
	if err != nil || !ip.IsValid() {
		return held{unknown, what + " is not known"}
	}
	in := netip.PrefixFrom(first, int(r.GetPrefixLen().GetValue()))
	return held{of(in.Masked().Contains(ip.Unmap())), fmt.Sprintf("%s is %s, want one in %s", what, ip, in)}
}
