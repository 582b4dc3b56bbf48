package model

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"
)

// Key sets of issuers are objects that no user writes: a JWTRule that has a jwksUri and the keys that were fetched there.

// KeySet returns the object for the keys that were fetched at an address.
func KeySet(uri, keys string) *Object {
	return &Object{Meta: Meta{Kind: "KeySet", Name: uri}, Spec: &security.JWTRule{JwksUri: uri, Jwks: keys}}
}

// KeyURIs returns the addresses of key sets that policies name, ordered.
func (m *Mesh) KeyURIs() []string { return slices.Sorted(maps.Keys(m.keyURIs)) }

// readKeySets is called before objects are added: policies may come before the keys.
func (m *Mesh) readKeySets(objects []*Object) {
	m.keySets, m.keyURIs = map[string]string{}, map[string]bool{}
	for _, o := range objects {
		if spec, is := o.Spec.(*security.JWTRule); is {
			m.keySets[spec.JwksUri] = spec.Jwks
		}
	}
}

// keyed are the inputs of a policy about tokens with the keys that it names.
type keyed struct {
	spec *security.RequestAuthentication
	keys []string // by rule, "" for none
}

func (k keyed) Same(other keyed) bool {
	return k.spec == other.spec && slices.Equal(k.keys, other.keys)
}

func (k keyed) join() *security.RequestAuthentication {
	out := proto.CloneOf(k.spec)
	for i, keys := range k.keys {
		if keys != "" {
			out.JwtRules[i].Jwks = keys
		}
	}
	return out
}

// withKeys returns a policy with the keys that are known of those that it names by address.
func (m *Mesh) withKeys(o *Object, spec *security.RequestAuthentication) *security.RequestAuthentication {
	in, some := keyed{spec: spec, keys: make([]string, len(spec.JwtRules))}, false
	for i, r := range spec.JwtRules {
		if uri := r.GetJwksUri(); uri != "" {
			m.keyURIs[uri] = true
			in.keys[i] = m.keySets[uri]
			some = some || in.keys[i] != ""
		}
	}
	if !some {
		return spec
	}
	return Recall(m.memory, "keys of "+o.Namespace+"/"+o.Name, in, keyed.join)
}
