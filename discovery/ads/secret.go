package ads

import (
	"context"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/internal/local"
)

// SetSecrets sets the secrets that proxies get on request. Without a call no secrets are served. Proxies keep a secret
// that is no longer in the set: without it they could not serve.
func (s *Server) SetSecrets(all secret.Set) {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	v, changed := s.vault.Load().next(all)
	s.vault.Store(v)
	if g := s.current.Load(); g != nil && len(changed) > 0 {
		s.push(g.mesh, model.Change{Since: time.Now(), Keys: changed, Count: len(changed)})
	}
}

// vault holds secrets as resources, immutable.
type vault struct{ shelves map[string]shelf } // by namespace

// shelf is the secrets of a namespace.
type shelf struct {
	set      *set
	accounts map[string][]string // by name, for secrets that have a key
}

// next returns the vault of these secrets, which shares unchanged namespaces with v, and the names of the changed ones.
func (v *vault) next(all secret.Set) (*vault, []string) {
	out := &vault{shelves: map[string]shelf{}}
	var changed []string
	for namespace, secrets := range all {
		now := shelf{accounts: map[string][]string{}}
		var list []*resource
		for name, s := range secrets {
			list = append(list, encode(name, secretMessage(name, s)))
			if len(s.Key) > 0 {
				now.accounts[name] = s.Accounts
			}
		}
		slices.SortFunc(list, byName)
		now.set = newSet(sds, list)
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

func (v *vault) of(namespace string) (s shelf, ok bool) {
	if v != nil {
		s, ok = v.shelves[namespace]
	}
	return s, ok
}

func (s shelf) equal(other shelf) bool {
	return s.set.version == other.set.version && maps.EqualFunc(s.accounts, other.accounts, slices.Equal)
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

// maySeeSecrets returns an error with the reason if a stream gets no secrets. A private key leaves discovery over mTLS
// only, where the namespace of the certificate was checked already, unless the operator allows programs on this host to
// request it in plaintext.
func (s *Server) maySeeSecrets(ctx context.Context) error {
	if s.vault.Load() == nil {
		return status.Error(codes.Unimplemented, "secrets are not served: proxies read certificates from files")
	}
	if _, secure := linkOf(ctx).AuthInfo.(credentials.TLSInfo); secure {
		return nil
	}
	if !s.limits.PlaintextSecrets {
		return status.Error(codes.PermissionDenied, "secrets are sent with mTLS only")
	}
	if !local.Peer(peerOf(ctx)) {
		return status.Error(codes.PermissionDenied, "secrets are sent with mTLS, and in plaintext to 127.0.0.1 and ::1 only")
	}
	return nil
}
