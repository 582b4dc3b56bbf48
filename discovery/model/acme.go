package model

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// acmePrefix begins a credentialName that names an issuer instead of a secret.
const acmePrefix = "acme://"

// Issuer returns the name of the issuer that a credentialName names; with "" it names a secret.
func Issuer(credential string) string {
	name, is := strings.CutPrefix(credential, acmePrefix)
	if !is {
		return ""
	}
	return name
}

// IssuedSecret returns the name by which proxies request the certificate that an issuer gives to a server of a Gateway. It stays
// when the server's hosts change, and no credentialName can be it.
func IssuedSecret(g Meta, s *networking.Server) string {
	return strings.Join([]string{s.GetTls().GetCredentialName(), g.Namespace, g.Name, s.GetPort().GetName()}, "/")
}

// challengePath begins the paths at which an issuer asks.
const challengePath = "/.well-known/acme-challenge/"

// Challenge returns the object for a challenge of an issuer: gateways of the namespace answer a question about the token at port 80
// of a host. No user writes it.
func Challenge(namespace, host, token, answer string) *Object {
	return &Object{Meta: Meta{Kind: "Challenge", Namespace: namespace, Name: token}, Spec: &networking.HTTPRoute{
		Name: host,
		Match: []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{
			MatchType: &networking.StringMatch_Exact{Exact: challengePath + token},
		}}},
		DirectResponse: &networking.HTTPDirectResponse{
			Status: 200, Body: &networking.HTTPBody{Specifier: &networking.HTTPBody_String_{String_: answer}},
		},
	}}
}

// Question is a question of an issuer to the gateways of a namespace.
type Question struct{ Host, Token, Path, Answer string }

// Questions returns those that the gateways of a namespace answer, in the order of the objects.
func (m *Mesh) Questions(namespace string) []Question { return m.questions[namespace] }

// Answers reports whether the gateways of a namespace answer a question about a token.
func (m *Mesh) Answers(namespace, token string) bool {
	for _, q := range m.questions[namespace] {
		if q.Token == token {
			return true
		}
	}
	return false
}

func (m *Mesh) addQuestion(o *Object, r *networking.HTTPRoute) {
	if m.questions == nil {
		m.questions = map[string][]Question{}
	}
	m.questions[o.Namespace] = append(m.questions[o.Namespace], Question{
		Host: r.Name, Token: o.Name, Path: challengePath + o.Name, Answer: r.GetDirectResponse().GetBody().GetString_(),
	})
}
