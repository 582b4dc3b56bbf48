package model

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"
)

// Key sets of issuers are objects that no user writes: a JWTRule that has a jwksUri and the keys that were fetched there.

// OpenIDConfiguration is the path of the document in which an issuer names the address of its keys.
const OpenIDConfiguration = "/.well-known/openid-configuration"

// KeyURI returns the address from which the keys of a rule are fetched: its jwksUri, or that of its issuer's OpenID configuration;
// "" for a rule that has its keys, or whose issuer has no address.
func KeyURI(r *security.JWTRule) string {
	if r.GetJwksUri() != "" || r.GetJwks() != "" {
		return r.GetJwksUri()
	}
	u, err := url.Parse(r.GetIssuer())
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(r.GetIssuer(), "?#") {
		return ""
	}
	return strings.TrimSuffix(r.GetIssuer(), "/") + OpenIDConfiguration
}

// KeySet returns the object for the keys that were fetched at an address.
func KeySet(uri, keys string) *Object {
	return &Object{Meta: Meta{Kind: "KeySet", Name: KeySetName(uri)}, Spec: &security.JWTRule{JwksUri: uri, Jwks: keys}}
}

// KeySetName returns the name of a key set, which is its address. A password in it becomes a number that differs with it: names
// are printed.
func KeySetName(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.User == nil {
		return uri
	}
	sum := sha256.Sum256([]byte(uri))
	return fmt.Sprintf("%s#%x", u.Redacted(), sum[:4])
}

// Times of a question for keys: that of a rule without a timeout, which is Istio's, and the longest.
const (
	keyTimeout    = 5 * time.Second
	MaxKeyTimeout = 10 * time.Second
)

// KeyAddress is an address of a key set that policies of a namespace name.
type KeyAddress struct {
	Namespace string
	URI       string
	Timeout   time.Duration // of a question: the longest of those that these policies give
	Known     bool          // keys of it were fetched before
	Root      bool          // the namespace is the root namespace
}

// KeyAddresses returns the addresses of key sets that policies among groups name, ordered by namespace and address.
func KeyAddresses(groups iter.Seq[Group]) []KeyAddress {
	type place struct{ namespace, uri string }
	all, known, settings := map[place]time.Duration{}, map[string]bool{}, Settings{}
	for g := range groups {
		for _, o := range g.Objects {
			switch spec := o.Spec.(type) {
			case *meshconfig.MeshConfig:
				settings.Config = cmp.Or(settings.Config, spec)
			case *security.JWTRule:
				known[spec.JwksUri] = true
			case *security.RequestAuthentication:
				for _, r := range spec.JwtRules {
					given := keyTimeout
					if r.GetTimeout() != nil {
						given = min(r.Timeout.AsDuration(), MaxKeyTimeout)
					}
					if at := (place{o.Namespace, KeyURI(r)}); at.uri != "" {
						all[at] = max(all[at], given)
					}
				}
			}
		}
	}
	out := make([]KeyAddress, 0, len(all))
	for at, timeout := range all {
		out = append(out, KeyAddress{at.namespace, at.uri, timeout, known[at.uri], at.namespace == settings.RootNamespace()})
	}
	slices.SortFunc(out, func(a, b KeyAddress) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.URI, b.URI))
	})
	return out
}

// KeyAddresses returns the addresses of key sets that policies of the mesh name, ordered.
func (m *Mesh) KeyAddresses() []KeyAddress { return m.keyAddresses }

// readKeySets is called before objects are added: policies may come before the keys.
func (m *Mesh) readKeySets(objects []*Object) {
	m.keySets = map[string]string{}
	for _, o := range objects {
		if spec, is := o.Spec.(*security.JWTRule); is {
			m.keySets[spec.JwksUri] = spec.Jwks
		}
	}
	m.keyAddresses = KeyAddresses(slices.Values([]Group{{Objects: objects}}))
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
		if uri := KeyURI(r); uri != "" {
			in.keys[i] = m.keySets[uri]
			some = some || in.keys[i] != ""
		}
	}
	if !some {
		return spec
	}
	return Recall(m.memory, "keys of "+o.Namespace+"/"+o.Name, in, keyed.join)
}
