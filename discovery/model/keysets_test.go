package model_test

import (
	"slices"
	"strings"
	"testing"

	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A policy has the keys of the addresses that it names, as far as they are known, and stays the same while they do.
func TestKeySets(t *testing.T) {
	tokens := object("RequestAuthentication", "shop/p", 1, &security.RequestAuthentication{JwtRules: []*security.JWTRule{
		{Issuer: "a", JwksUri: "https://a.test/keys"}, {Issuer: "b", Jwks: "own"}, {Issuer: "c", JwksUri: "https://c.test/keys"},
	}})
	set := func(keys string) *model.Object { return model.KeySet("https://a.test/keys", keys) }
	groups := func(all ...*model.Object) []model.Group {
		var out []model.Group
		for _, o := range all {
			out = append(out, model.Group{Objects: []*model.Object{o}})
		}
		return out
	}
	m := model.New(slices.Values(groups(tokens)))
	told := func(m *model.Mesh) string {
		var out []string
		for _, r := range m.Policies("shop", nil)[0].Tokens.JwtRules {
			out = append(out, r.Jwks)
		}
		return strings.Join(out, ",")
	}
	if got := told(m); got != ",own," || strings.Join(m.KeyURIs(), " ") != "https://a.test/keys https://c.test/keys" {
		t.Errorf("the keys are %q, of %q", got, m.KeyURIs())
	}
	if notes := m.Notes(); len(notes) != 2 || notes[0].Code != model.NoKeys || notes[0].Path != "spec.jwtRules[0].jwksUri" {
		t.Errorf("the notes are %v", notes)
	}
	one := set("1")
	m = m.Next(slices.Values(groups(tokens, one)))
	first := m.Policies("shop", nil)[0]
	if got := told(m); got != "1,own," || len(m.Notes()) != 1 {
		t.Errorf("the keys are %q, the notes %v", got, m.Notes())
	}
	if m = m.Next(slices.Values(groups(one, tokens))); m.Policies("shop", nil)[0] != first {
		t.Error("a policy whose keys stay is another one")
	}
	if m = m.Next(slices.Values(groups(set("2"), tokens))); told(m) != "2,own," {
		t.Errorf("the keys are %q", told(m))
	}
	if rules := tokens.Spec.(*security.RequestAuthentication).JwtRules; rules[0].Jwks != "" {
		t.Error("the object itself has changed")
	}
}
