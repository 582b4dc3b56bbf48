package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"
)

// policiesOf returns objects of one name, with the specs, each from a place of its own.
func policiesOf(kind string, specs ...any) (groups []Group) {
	for i, spec := range specs {
		o := object(kind, "shop", "p", 0, spec)
		o.Origin = Origin{File: fmt.Sprintf("%d.yaml", i), Line: 1}
		groups = append(groups, Group{Objects: []*Object{o}})
	}
	return groups
}

func selecting(app string) *typev1beta1.WorkloadSelector {
	if app == "" {
		return nil
	}
	return &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": app}}
}

// A second policy of a name closes what it selects, and nothing else; the note says how.
func TestASecondPolicyOfAName(t *testing.T) {
	policy := func(action security.AuthorizationPolicy_Action, app string, paths ...string) *security.AuthorizationPolicy {
		to := []*security.Rule_To{{Operation: &security.Operation{Paths: paths}}}
		return &security.AuthorizationPolicy{Action: action, Selector: selecting(app), Rules: []*security.Rule{{To: to}}}
	}
	tokens := func(app, issuer string) *security.RequestAuthentication {
		return &security.RequestAuthentication{Selector: selecting(app), JwtRules: []*security.JWTRule{{
			Issuer: issuer, FromHeaders: []*security.JWTHeader{{Name: "x"}}, FromParams: []string{"t"}, OutputPayloadToHeader: "o",
		}}}
	}
	const deny, allow, custom, audit = security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_ALLOW, security.AuthorizationPolicy_CUSTOM, security.AuthorizationPolicy_AUDIT
	for name, test := range map[string]struct {
		kind  string
		specs []any
		a, b  []string // the policies of the workloads a and b
		note  string   // a part of the last one; "" for none
	}{
		"two denials":              {"AuthorizationPolicy", []any{policy(deny, "", "/a"), policy(deny, "", "/b")}, []string{"p DENY [/a]", "p#2 DENY [/b]"}, []string{"p DENY [/a]", "p#2 DENY [/b]"}, "the rules of both count"},
		"three":                    {"AuthorizationPolicy", []any{policy(deny, "a", "/a"), policy(deny, "b", "/b"), policy(deny, "a", "/c")}, []string{"p DENY [/a]", "p#3 DENY [/c]"}, []string{"p#2 DENY [/b]"}, "the rules of both count"},
		"equal ones":               {"AuthorizationPolicy", []any{policy(deny, "a", "/a"), policy(deny, "a", "/a")}, []string{"p DENY [/a]"}, nil, "both are the same"},
		"a denial after a custom":  {"AuthorizationPolicy", []any{policy(custom, "a", "/a"), policy(deny, "a", "/b")}, []string{"p CUSTOM [/a]", "p#2 DENY [/b]"}, nil, "the rules of both count"},
		"a custom one":             {"AuthorizationPolicy", []any{policy(deny, "a", "/a"), policy(custom, "b", "/b")}, []string{"p DENY [/a]"}, []string{"p#2 CUSTOM [/b]"}, "the rules of both count"},
		"an allowance":             {"AuthorizationPolicy", []any{policy(allow, "a", "/a"), policy(allow, "b", "/b")}, []string{"p ALLOW [/a]"}, []string{"p#2 ALLOW nobody"}, "allows nobody"},
		"an audit":                 {"AuthorizationPolicy", []any{policy(deny, "a", "/a"), policy(audit, "a", "/b")}, []string{"p DENY [/a]"}, nil, "not used"},
		"tokens":                   {"RequestAuthentication", []any{tokens("a", "i"), tokens("b", "j")}, []string{"p tokens i"}, []string{"p#2 tokens  [x] [t]"}, "no token is accepted"},
		"tokens of one workload":   {"RequestAuthentication", []any{tokens("a", "i"), tokens("a", "j")}, []string{"p tokens i", "p#2 tokens  [x] [t]"}, nil, "no token is accepted"},
		"equal tokens":             {"RequestAuthentication", []any{tokens("a", "i"), tokens("a", "i")}, []string{"p tokens i"}, nil, "both are the same"},
		"tokens that nobody reads": {"RequestAuthentication", []any{tokens("a", "i"), &security.RequestAuthentication{Selector: selecting("b")}}, []string{"p tokens i"}, nil, "not used"},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values(policiesOf(test.kind, test.specs...)))
			for app, want := range map[string][]string{"a": test.a, "b": test.b} {
				var got []string
				for _, p := range m.Policies("shop", map[string]string{"app": app}) {
					got = append(got, shownPolicy(p))
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s has %q, want %q", app, got, want)
				}
			}
			notes := slices.DeleteFunc(m.Notes(), func(n Note) bool { return n.Code != Conflict })
			if len(notes) != len(test.specs)-1 || !strings.Contains(notes[len(notes)-1].Message, test.note) {
				t.Errorf("notes are %+v, want %d, the last with %q", notes, len(test.specs)-1, test.note)
			}
			next := m.Next(slices.Values(policiesOf(test.kind, test.specs...)))
			if again := next.Next(slices.Values([]Group{{Objects: next.Objects()}})); !slices.Equal(again.Policies("shop", map[string]string{"app": "b"}), next.Policies("shop", map[string]string{"app": "b"})) {
				t.Error("the next generation makes them anew")
			}
		})
	}
}

func shownPolicy(p Policy) string {
	if p.Tokens != nil {
		out := p.Name
		for _, r := range p.Tokens.JwtRules {
			if out += " tokens " + r.Issuer; r.Issuer == "" {
				out += fmt.Sprint(" [", r.FromHeaders[0].Name, "] ", r.FromParams)
			}
		}
		return out
	}
	out := p.Name + " " + p.Spec.Action.String()
	if len(p.Spec.Rules) == 0 {
		return out + " nobody"
	}
	return out + " " + fmt.Sprint(p.Spec.Rules[0].To[0].Operation.Paths)
}

// Of two PeerAuthentications of one name the stricter mode of each port counts for the second's workloads.
func TestASecondPeerAuthenticationOfAName(t *testing.T) {
	const u, d, p, s = security.PeerAuthentication_MutualTLS_UNSET, security.PeerAuthentication_MutualTLS_DISABLE, security.PeerAuthentication_MutualTLS_PERMISSIVE, security.PeerAuthentication_MutualTLS_STRICT
	mode := func(m security.PeerAuthentication_MutualTLS_Mode) *security.PeerAuthentication_MutualTLS {
		return &security.PeerAuthentication_MutualTLS{Mode: m}
	}
	of := func(app string, m security.PeerAuthentication_MutualTLS_Mode, ports ...security.PeerAuthentication_MutualTLS_Mode) *security.PeerAuthentication {
		out := &security.PeerAuthentication{Selector: selecting(app), Mtls: mode(m)}
		for i, level := range ports {
			if out.PortLevelMtls == nil {
				out.PortLevelMtls = map[uint32]*security.PeerAuthentication_MutualTLS{}
			}
			out.PortLevelMtls[uint32(i+1)] = mode(level)
		}
		return out
	}
	type modes [3]PeerMode // of the ports 0, 1 and 2
	const P, S, D = PeerPermissive, PeerStrict, PeerDisable
	for name, test := range map[string]struct {
		specs       []*security.PeerAuthentication
		a, b, other modes
	}{
		"of the namespace":                {[]*security.PeerAuthentication{of("", p), of("", s)}, modes{S, S, S}, modes{S, S, S}, modes{P, S, S}},
		"the other way around":            {[]*security.PeerAuthentication{of("", s), of("", p)}, modes{S, S, S}, modes{S, S, S}, modes{P, S, S}},
		"of one selector":                 {[]*security.PeerAuthentication{of("a", p, s), of("a", d, p, s)}, modes{P, S, S}, modes{P, P, P}, modes{P, S, S}},
		"of two selectors":                {[]*security.PeerAuthentication{of("a", p), of("b", s)}, modes{P, P, P}, modes{S, S, S}, modes{P, S, S}},
		"a strict one, and one of a part": {[]*security.PeerAuthentication{of("", s), of("a", d)}, modes{S, S, S}, modes{S, S, S}, modes{P, S, S}},
		"one of a part, and a strict one": {[]*security.PeerAuthentication{of("a", p), of("", s)}, modes{S, S, S}, modes{S, S, S}, modes{S, S, S}},
		"three":                           {[]*security.PeerAuthentication{of("a", d), of("a", p), of("a", s)}, modes{S, S, S}, modes{P, P, P}, modes{P, S, S}},
		"a third that is open":            {[]*security.PeerAuthentication{of("a", p), of("a", s), of("a", d)}, modes{S, S, S}, modes{P, P, P}, modes{P, S, S}},
		"one that inherits":               {[]*security.PeerAuthentication{of("a", d), of("a", u)}, modes{P, P, P}, modes{P, P, P}, modes{P, S, S}},
		"equal ones":                      {[]*security.PeerAuthentication{of("a", d), of("a", d)}, modes{D, D, D}, modes{P, P, P}, modes{P, S, S}},
	} {
		t.Run(name, func(t *testing.T) {
			var specs []any
			for _, spec := range test.specs {
				specs = append(specs, spec)
			}
			groups := append(policiesOf("PeerAuthentication", specs...), Group{Objects: []*Object{
				object("PeerAuthentication", "shop", "z", 0, &security.PeerAuthentication{
					Selector: selecting("other"), Mtls: mode(p), PortLevelMtls: map[uint32]*security.PeerAuthentication_MutualTLS{1: mode(s), 2: mode(s)},
				}),
			}})
			m := New(slices.Values(groups))
			for app, want := range map[string]modes{"a": test.a, "b": test.b, "other": test.other} {
				of := m.Peers("shop").Of(map[string]string{"app": app})
				if got := (modes{of.Mode(0), of.Mode(1), of.Mode(2)}); got != want {
					t.Errorf("%s has the modes %v, want %v", app, got, want)
				}
			}
		})
	}
}
