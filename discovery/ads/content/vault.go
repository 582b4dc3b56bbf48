package content

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Vault holds secrets as resources, immutable.
type Vault struct{ shelves map[string]shelf } // by namespace

// shelf is the secrets of a namespace.
type shelf struct {
	set      *Set
	accounts map[string][]string // by name, for secrets that have a key
}

// Next returns the vault of these secrets, which shares unchanged namespaces with v, and the names of the changed ones.
func (v *Vault) Next(all secret.Set) (*Vault, []string) {
	out := &Vault{shelves: map[string]shelf{}}
	var changed []string
	for namespace, secrets := range all {
		now := shelf{accounts: map[string][]string{}}
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
		out.shelves[namespace] = now
	}
	if v != nil {
		for namespace := range v.shelves {
			if _, still := out.shelves[namespace]; !still {
				changed = append(changed, "secrets/"+namespace)
			}
		}
	}
	slices.Sort(changed)
	return out, changed
}

func (v *Vault) of(namespace string) (s shelf, ok bool) {
	if v != nil {
		s, ok = v.shelves[namespace]
	}
	return s, ok
}

func (s shelf) equal(other shelf) bool {
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

// opens reports whether a reader's certificate gives access to a secret.
func (s shelf) opens(name string, r Reader) bool {
	accounts, key := s.accounts[name]
	return !key || r.Account == "" || slices.Contains(accounts, r.Account) || slices.Contains(accounts, anyAccount)
}
