//go:build wire

package policies

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// asking is a request, or a connection: a value for each thing that rules look at, as leaf.about names them. What it lacks is not
// there, or is as in plain.
type asking map[string]any

var plain = asking{
	"peer": "127.0.0.1", "remote": "127.0.0.1", "address": "127.0.0.1", "port": uint32(80), "principal": "", "server name": "",
	"header :method": []string{"GET"}, "header :authority": []string{"web.test"}, "path": "/",
}

func (a asking) text(about string) string {
	if value, ok := a[about].(string); ok {
		return value
	}
	return plain[about].(string)
}

// with returns the request with another value.
func (a asking) with(about string, value any) asking {
	out := maps.Clone(a)
	if about == pairOfClaims {
		for i, claim := range claims {
			if v := value.([2]any)[i]; v != nil {
				out[claim] = v
			} else {
				delete(out, claim)
			}
		}
		return out
	}
	if value == nil {
		delete(out, about)
	} else {
		out[about] = value
	}
	return out
}

// pairOfClaims stands for two claims that one condition looks at, the issuer and the subject.
const pairOfClaims = "token"

var claims = [2]string{claimed("iss"), claimed("sub")}

func claimed(name string) string {
	return "metadata " + strings.Join([]string{"envoy.filters.http.jwt_authn", "payload", name}, separator)
}

// choices are the values that requests have, by what they are of: those that rules name, those near them, and none (nil).
type choices map[string][]any

// choicesOf collects them from the leaves of rules.
func choicesOf(leaves []leaf) choices {
	out := choices{}
	found := map[string][]string{} // texts that matchers match
	for i, l := range leaves {
		switch m := l.match.(type) {
		case *corev3.CidrRange:
			for _, address := range nearRange(m) {
				out.add(l.about, address)
			}
		case uint32:
			for _, port := range []uint32{m, m + 1, m - 1} {
				out.add(l.about, port)
			}
		default:
			of := near(m)
			found[l.about] = append(found[l.about], of.found...)
			for _, text := range append(of.found, of.missed...) {
				out.text(l.about, text)
			}
			if i > 0 && leaves[i-1].about == claims[0] && l.about == claims[1] {
				out.tokens(near(leaves[i-1].match), of)
			}
		}
	}
	if out[pairOfClaims] != nil {
		out.tokens(nearness{found: found[claims[0]]}, nearness{found: found[claims[1]]})
	}
	out.principals(found["principal"])
	for about := range out {
		if about != pairOfClaims {
			out.add(about, nil)
		}
	}
	return out
}

func (c choices) add(about string, value any) {
	if !slices.ContainsFunc(c[about], func(v any) bool { return reflect.DeepEqual(v, value) }) {
		c[about] = append(c[about], value)
	}
}

// text adds a text in the forms that a value can have.
func (c choices) text(about, text string) {
	switch kind, _, _ := strings.Cut(about, " "); {
	case about == "any":
	case about == "header :method", about == "header :authority":
		c.add(about, []string{text})
	case kind == "header":
		c.add(about, []string{text})
		c.add(about, []string{text, "other"})
	case kind == "metadata":
		c.add(about, text)
		c.add(about, []string{"other", text})
	case about == "principal":
		c.add(about, identity(text))
	default:
		c.add(about, text)
	}
}

// identity makes a SPIFFE ID of a text that may be a part of one.
func identity(text string) string {
	if text == "" || strings.HasPrefix(text, "spiffe://") {
		return text
	}
	return "spiffe://td/" + strings.TrimPrefix(text, "/")
}

// tokens adds tokens by issuer and subject.
func (c choices) tokens(issuers, subjects nearness) {
	for _, issuer := range issuers.found {
		for _, subject := range subjects.found {
			c.add(pairOfClaims, [2]any{issuer, subject})
		}
		for _, subject := range subjects.missed {
			c.add(pairOfClaims, [2]any{issuer, subject})
		}
		c.add(pairOfClaims, [2]any{issuer, nil})
		c.add(pairOfClaims, [2]any{issuer, []string{"other", subjects.found[0]}})
	}
	for _, issuer := range issuers.missed {
		c.add(pairOfClaims, [2]any{issuer, subjects.found[0]})
	}
	c.add(pairOfClaims, [2]any{nil, subjects.found[0]})
	c.add(pairOfClaims, [2]any{nil, nil})
}

// principals adds those that fulfil conditions on several parts.
func (c choices) principals(found []string) {
	var begins, middles, ends []string
	for _, text := range found {
		begin, rest, named := strings.Cut(identity(text), "/ns/")
		if namespace, end, _ := strings.Cut(rest, "/"); named {
			middles, ends = append(middles, "/ns/"+namespace+"/"), append(ends, end)
		}
		begins = append(begins, begin)
	}
	for _, begin := range few(begins) {
		for _, middle := range few(middles) {
			for _, end := range few(ends) {
				c.add("principal", begin+middle+end)
			}
		}
	}
}

// few returns some texts of many: each second, fourth, … of them, if there are more than eight.
func few(all []string) (out []string) {
	slices.Sort(all)
	all = slices.Compact(all)
	for i := 0; i < len(all); i += 1 + len(all)/8 {
		out = append(out, all[i])
	}
	return out
}

// nearness is texts that a matcher matches, and such as it almost matches.
type nearness struct{ found, missed []string }

func near(match any) (n nearness) {
	switch m := match.(type) {
	case *anypb.Any:
		return nearTemplate(m)
	case *matcherv3.StringMatcher:
		switch p := m.MatchPattern.(type) {
		case *matcherv3.StringMatcher_Exact:
			n.found = []string{p.Exact}
		case *matcherv3.StringMatcher_Prefix:
			n.found = []string{p.Prefix, p.Prefix + "tail"}
		case *matcherv3.StringMatcher_Suffix:
			n.found = []string{p.Suffix, "head" + p.Suffix}
		case *matcherv3.StringMatcher_Contains:
			n.found = []string{p.Contains, "head" + p.Contains + "tail"}
		case *matcherv3.StringMatcher_SafeRegex:
			return nearExpression(p.SafeRegex.Regex)
		}
	default: // present
		n.found = []string{"x"}
	}
	for _, text := range n.found {
		n.missed = append(n.missed, text+"x", "x"+text, strings.ToUpper(text), text[:max(0, len(text)-1)])
	}
	return n
}

// nearExpression knows the expressions of our kinds. It also returns what they would match if a dot were not quoted.
func nearExpression(re string) (n nearness) {
	long := strings.NewReplacer("(.+/|)", "a/", "(/.+)?", "/b", "[^/]*", "c", ".+", "d", ".*", "e", `\`, "").Replace(re)
	short := strings.NewReplacer("(.+/|)", "", "(/.+)?", "", "[^/]*", "", ".+", "f", ".*", "", `\`, "").Replace(re)
	loose := strings.NewReplacer("(.+/|)", "", "(/.+)?", "", "[^/]*", "", ".+", "f", ".*", "", `\.`, "x").Replace(re)
	return nearness{[]string{long, short}, []string{loose, long + "x", "x" + long, long[:len(long)-1], short + "/x"}}
}

func nearTemplate(a *anypb.Any) (n nearness) {
	m := &templatev3.UriTemplateMatchConfig{}
	if err := a.UnmarshalTo(m); err != nil {
		panic(err)
	}
	for _, of := range [][2]string{{"a", "b"}, {"a/b", "c"}} {
		path := strings.NewReplacer("**", of[0], "*", of[1]).Replace(m.PathTemplate)
		n.found = append(n.found, path, path+"?q=/x")
		n.missed = append(n.missed, path+"/x", "/x"+path, path[:len(path)-1])
	}
	for _, of := range [][2]string{{"", ""}, {"a", "b/c"}} {
		path := strings.NewReplacer("**", of[0], "*", of[1]).Replace(m.PathTemplate)
		n.missed = append(n.missed, path, strings.ReplaceAll(path, "//", "/"))
	}
	return n
}

// nearRange returns addresses at both ends of a range, within and outside, and one of IPv6.
func nearRange(r *corev3.CidrRange) (out []string) {
	first := netip.PrefixFrom(netip.MustParseAddr(r.AddressPrefix), int(r.PrefixLen.GetValue())).Masked()
	last := first.Addr().AsSlice()
	for bit := first.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	end, _ := netip.AddrFromSlice(last)
	out = append(out, first.Addr().String(), end.String(), first.Addr().Prev().String(), end.Next().String(), "2001:db8::1")
	if first.Addr().Is4() {
		out = append(out, netip.AddrFrom16(first.Addr().As16()).String()) // the same in IPv6
	}
	return out
}
