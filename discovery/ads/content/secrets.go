package content

import (
	"fmt"
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// Secrets holds secrets as resources, immutable.
type Secrets struct{ namespaces map[string]namespaceSecrets } // by namespace

// namespaceSecrets is the secrets of a namespace.
type namespaceSecrets struct {
	set      *Set
	accounts map[string][]string // by name, for secrets that have a key
}

// Next returns these secrets as resources, which shares unchanged namespaces with v, and the names of the changed ones.
func (v *Secrets) Next(all secret.Set) (*Secrets, []string) {
	out := &Secrets{namespaces: map[string]namespaceSecrets{}}
	var changed []string
	for namespace, secrets := range all {
		now := namespaceSecrets{accounts: map[string][]string{}}
		var list []*Resource
		for name, s := range secrets {
			list = append(list, Encode(name, secretMessage(name, s)))
			if len(s.Key) > 0 {
				now.accounts[name] = s.Accounts
				for _, borrower := range s.Namespaces {
					lent := model.LentSecret(borrower, name)
					list, now.accounts[lent] = append(list, Encode(lent, secretMessage(lent, s))), s.Accounts
				}
			}
		}
		now.set = SetOf(SDS, list)
		if old, had := v.of(namespace); had && old.equal(now) {
			now = old
		} else {
			changed = append(changed, "secrets/"+namespace)
		}
		out.namespaces[namespace] = now
	}
	if v != nil {
		for namespace := range v.namespaces {
			if _, still := out.namespaces[namespace]; !still {
				changed = append(changed, "secrets/"+namespace)
			}
		}
	}
	slices.Sort(changed)
	return out, changed
}

func (v *Secrets) of(namespace string) (s namespaceSecrets, ok bool) {
	if v != nil {
		s, ok = v.namespaces[namespace]
	}
	return s, ok
}

func (s namespaceSecrets) equal(other namespaceSecrets) bool {
	return s.set.Version == other.set.Version && maps.EqualFunc(s.accounts, other.accounts, slices.Equal)
}

func secretMessage(name string, s secret.Secret) *tlsv3.Secret {
	inline := func(text []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: text}}
	}
	if len(s.Certificate) == 0 {
		return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inline(s.Roots)},
		}}
	}
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{
		TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: inline(s.Certificate), PrivateKey: inline(s.Key)},
	}}
}

// anyAccount stands for every service account of a namespace.
const anyAccount = "*"

// allows reports whether a reader's certificate gives access to a secret.
func (s namespaceSecrets) allows(name string, r Reader) bool {
	accounts, key := s.accounts[name]
	return !key || r.Account == "" || slices.Contains(accounts, r.Account) || slices.Contains(accounts, anyAccount)
}

// secrets returns the secrets that a reader may have. out is its outbound view as xds made it.
func (vs *Views) secrets(r Reader, out *xds.Resources) *Set {
	var list []*Resource
	if s, some := vs.Secrets.of(r.Outbound.Namespace); some && r.Secrets {
		for _, name := range xds.SecretNames(out, xds.BuildInbound(vs.Mesh, r.Inbound)) {
			if secret := s.set.Find(name); secret != nil && s.allows(name, r) {
				list = append(list, secret)
			}
		}
	}
	if len(list) == 0 {
		return noSecrets
	}
	return NewSet(SDS, list)
}

var noSecrets = NewSet(SDS, nil) // of most proxies

// Withheld returns the reason why a reader does not get a secret, "" if it gets it. lacking says more of one that
// nobody has brought, "" for no more.
func (vs *Views) Withheld(name string, r Reader, lacking func(namespace, name string) string) string {
	s, _ := vs.Secrets.of(r.Outbound.Namespace)
	switch {
	case vs.Snapshot(r)[SDS].Find(name) != nil:
		return ""
	case s.withholds(name):
		namespace, own := model.Lent(name)
		return fmt.Sprintf("DestinationRules of namespace %q may not use the key of secret %s/%s: want that namespace in the secret's destination-rule-namespaces, "+
			"or the rule in namespace %s", namespace, r.Outbound.Namespace, own, r.Outbound.Namespace)
	case s.set.Find(name) == nil:
		_, name := model.Lent(name)
		text := fmt.Sprintf("namespace %q has no secret of this name", r.Outbound.Namespace)
		if more := lacking(r.Outbound.Namespace, name); more != "" {
			text += ": " + more
		}
		return text
	case !s.allows(name, r):
		return fmt.Sprintf("service account %q is not among its service-accounts", r.Account)
	}
	return "no Gateway that selects the proxy names it, nor a DestinationRule that the proxy is under"
}

// withholds reports whether a name is that of a key of these secrets for a namespace that its secret does not list.
func (s namespaceSecrets) withholds(name string) bool {
	namespace, own := model.Lent(name)
	_, key := s.accounts[own]
	return namespace != "" && key && s.set.Find(name) == nil
}
