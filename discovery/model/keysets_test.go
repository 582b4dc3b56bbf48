package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A policy has the keys of the addresses that it names, as far as they are known, and stays the same while they do.
func TestKeySets(t *testing.T) {
	tokens := object("RequestAuthentication", "shop/p", 1, &security.RequestAuthentication{JwtRules: []*security.JWTRule{
		{Issuer: "a", JwksUri: "https://a.test/keys"},
		{Issuer: "b", Jwks: "own"},
		{Issuer: "c", JwksUri: "https://c.test/keys"},
		{Issuer: "d", JwksUri: "https://c.test/keys", Timeout: durationpb.New(7 * time.Second)},
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
	if got := told(m); got != ",own,," || fmt.Sprint(m.KeyAddresses()) != "[{shop https://a.test/keys 5s false false} {shop https://c.test/keys 7s false false}]" {
		t.Errorf("the keys are %q, of %v", got, m.KeyAddresses())
	}
	if notes := m.Notes(); len(notes) != 3 || notes[0].Code != model.NoKeys || notes[0].Path != "spec.jwtRules[0].jwksUri" {
		t.Errorf("the notes are %v", notes)
	}
	late := &security.RequestAuthentication{JwtRules: []*security.JWTRule{{JwksUri: "https://c.test/keys", Timeout: durationpb.New(time.Hour)}}}
	if a := model.KeyAddresses(slices.Values(groups(tokens, set("1"), object("RequestAuthentication", "shop/q", 1, late),
		object("RequestAuthentication", "istio-system/q", 1, late)))); fmt.Sprint(a) != "[{istio-system https://c.test/keys 10s false true} {shop https://a.test/keys 5s true false} {shop https://c.test/keys 10s false false}]" {
		t.Errorf("the addresses are %v", a)
	}
	one := set("1")
	m = m.Next(slices.Values(groups(tokens, one)))
	first := m.Policies("shop", nil)[0]
	if got := told(m); got != "1,own,," || len(m.Notes()) != 2 {
		t.Errorf("the keys are %q, the notes %v", got, m.Notes())
	}
	if m = m.Next(slices.Values(groups(one, tokens))); m.Policies("shop", nil)[0] != first {
		t.Error("a policy whose keys stay is another one")
	}
	if m = m.Next(slices.Values(groups(set("2"), tokens))); told(m) != "2,own,," {
		t.Errorf("the keys are %q", told(m))
	}
	if rules := tokens.Spec.(*security.RequestAuthentication).JwtRules; rules[0].Jwks != "" {
		t.Error("the object itself has changed")
	}
}

// Keys of a rule without any are looked for at its issuer, if that is an address.
func TestKeysOfIssuers(t *testing.T) {
	for want, rule := range map[string]*security.JWTRule{
		"https://a.test/.well-known/openid-configuration":     {Issuer: "https://a.test"},
		"http://b.test:80/x/.well-known/openid-configuration": {Issuer: "http://b.test:80/x/"},
		"https://c.test/keys":                                 {Issuer: "https://c.test", JwksUri: "https://c.test/keys"},
	} {
		if got := model.KeyURI(rule); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	for _, issuer := range []string{"", "a.test", "someone@a.test", "https://", "https:///a", "ftp://a.test", "https://a.test?b", "https://a.test/#b", "https://a.test:x", "//a.test"} {
		if got := model.KeyURI(&security.JWTRule{Issuer: issuer}); got != "" {
			t.Errorf("of the issuer %q it is %q", issuer, got)
		}
	}
	if got := model.KeyURI(&security.JWTRule{Issuer: "https://a.test", Jwks: "{}"}); got != "" {
		t.Errorf("of a rule with keys it is %q", got)
	}
	const uri = "https://a.test/.well-known/openid-configuration"
	tokens := object("RequestAuthentication", "shop/p", 1, &security.RequestAuthentication{JwtRules: []*security.JWTRule{{Issuer: "https://a.test"}}})
	m := model.New(slices.Values([]model.Group{{Objects: []*model.Object{tokens}}}))
	if notes := m.Notes(); len(notes) != 1 || notes[0].Path != "spec.jwtRules[0].issuer" || len(m.KeyAddresses()) != 1 || m.KeyAddresses()[0].URI != uri {
		t.Errorf("before they are known, the notes are %v, of %v", notes, m.KeyAddresses())
	}
	m = m.Next(slices.Values([]model.Group{{Objects: []*model.Object{tokens, model.KeySet(uri, "1")}}}))
	if got := m.Policies("shop", nil)[0].Tokens.JwtRules[0].Jwks; got != "1" || len(m.Notes()) > 0 {
		t.Errorf("the keys are %q, the notes %v", got, m.Notes())
	}
}

// A password in an address is in no name, and two addresses have two names.
func TestKeySetNames(t *testing.T) {
	one, two := model.KeySetName("https://u:secret@a.test/keys"), model.KeySetName("https://u:other@a.test/keys")
	if strings.Contains(one, "secret") || one == two || model.KeySetName("https://a.test/keys") != "https://a.test/keys" {
		t.Errorf("the names are %q and %q", one, two)
	}
}
