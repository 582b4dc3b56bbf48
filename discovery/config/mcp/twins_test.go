package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A second policy of one name closes what it names: in one answer of a server, and next to an object of a file, whichever of the two
// comes first, also where the server's cannot be read. Equal ones are one.
func TestASecondPolicyOverMCP(t *testing.T) {
	web := &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": "web"}}
	authorization := func(action security.AuthorizationPolicy_Action, path string) proto.Message {
		return &security.AuthorizationPolicy{Selector: web, Action: action, Rules: []*security.Rule{{To: []*security.Rule_To{{Operation: &security.Operation{Paths: []string{path}}}}}}}
	}
	peer := func(mode security.PeerAuthentication_MutualTLS_Mode) proto.Message {
		return &security.PeerAuthentication{Selector: web, Mtls: &security.PeerAuthentication_MutualTLS{Mode: mode}}
	}
	newer := func(m proto.Message) proto.Message { // with a field that is not known here
		m.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01})
		return m
	}
	const (
		deny, allow        = security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_ALLOW
		permissive, strict = security.PeerAuthentication_MutualTLS_PERMISSIVE, security.PeerAuthentication_MutualTLS_STRICT
	)
	tokens := &security.RequestAuthentication{Selector: web, JwtRules: []*security.JWTRule{{Issuer: "https://a.test", Jwks: `{"keys":[]}`}}}
	other := proto.CloneOf(tokens)
	other.JwtRules[0].Issuer = "https://b.test"
	for name, test := range map[string]struct {
		kind string
		a, b proto.Message
		want string // what counts for app=web, whichever comes first
	}{
		"two denials":             {"AuthorizationPolicy", authorization(deny, "/a"), authorization(deny, "/b"), "DENY [/a], DENY [/b]"},
		"equal ones":              {"AuthorizationPolicy", authorization(deny, "/a"), authorization(deny, "/a"), "DENY [/a]"},
		"a denial of a newer API": {"AuthorizationPolicy", authorization(deny, "/a"), newer(authorization(deny, "/b")), "DENY [/a], DENY all"},
		"two allowances":          {"AuthorizationPolicy", authorization(allow, "/a"), authorization(allow, "/a2"), "ALLOW [one], ALLOW nobody"},
		"PERMISSIVE and STRICT":   {"PeerAuthentication", peer(permissive), peer(strict), "STRICT"},
		"two of PERMISSIVE":       {"PeerAuthentication", peer(permissive), peer(permissive), "PERMISSIVE"},
		"one of a newer API":      {"PeerAuthentication", peer(permissive), newer(peer(permissive)), "STRICT"},
		"tokens of two issuers":   {"RequestAuthentication", tokens, other, "no token, tokens"},
	} {
		k := config.Kinds()[slices.IndexFunc(config.Kinds(), func(k config.Kind) bool { return k.Name == test.kind })]
		for form, groups := range map[string][]model.Group{
			"one answer":             sentTogether(t, typeURL(k), test.a, test.b),
			"one answer, turned":     sentTogether(t, typeURL(k), test.b, test.a),
			"a file, and the server": append(sentTogether(t, typeURL(k), test.b), inFile(test.kind, test.a)),
		} {
			for _, groups := range [][]model.Group{groups, reversed(groups)} {
				if got := countsFor(model.New(slices.Values(groups)), test.kind); got != test.want {
					t.Errorf("%s, %s: what counts is %q, want %q", name, form, got, test.want)
				}
			}
		}
	}
}

func reversed(groups []model.Group) []model.Group {
	out := slices.Clone(groups)
	slices.Reverse(out)
	return out
}

// sentTogether returns what one answer with objects of one name gives.
func sentTogether(t *testing.T, url string, specs ...proto.Message) (out []model.Group) {
	var sent []*anypb.Any
	for _, spec := range specs {
		sent = append(sent, overMCP(t, "shop/p", spec))
	}
	groups, _ := newState("xds://tested:15010", nil).apply(url, sent)
	for _, g := range groups {
		out = append(out, g)
	}
	return out
}

// inFile returns what a file gives that has an object of the same name.
func inFile(kind string, spec proto.Message) model.Group {
	return model.Group{Objects: []*model.Object{{
		Meta: model.Meta{Kind: kind, Namespace: "shop", Name: "p", Origin: model.Origin{File: "a.yaml", Line: 1}}, Spec: spec,
	}}}
}

// countsFor describes the policies of a workload.
func countsFor(m *model.Mesh, kind string) string {
	labels := map[string]string{"app": "web"}
	if kind == "PeerAuthentication" {
		return map[model.PeerMode]string{model.PeerStrict: "STRICT", model.PeerPermissive: "PERMISSIVE"}[m.Peers("shop").Of(labels).Mode(0)]
	}
	var out []string
	for _, p := range m.Policies("shop", labels) {
		switch {
		case p.Tokens != nil && p.Tokens.JwtRules[0].Issuer == "":
			out = append(out, "no token")
		case p.Tokens != nil:
			out = append(out, "tokens")
		case len(p.Spec.Rules) == 0:
			out = append(out, p.Spec.Action.String()+" nobody")
		case p.Spec.Action == security.AuthorizationPolicy_ALLOW:
			out = append(out, "ALLOW [one]")
		case len(p.Spec.Rules[0].To) == 0:
			out = append(out, p.Spec.Action.String()+" all")
		default:
			out = append(out, fmt.Sprint(p.Spec.Action, " ", p.Spec.Rules[0].To[0].Operation.Paths))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
