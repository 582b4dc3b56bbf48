package ads

import (
	"context"
	"maps"
	"net"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Secret is a certificate with its key, or roots to check others' by; all PEM.
type Secret struct{ Certificate, Key, Roots []byte }

// Secrets are what proxies may be sent, by namespace, then by the name that they ask for. A proxy sees those of its own
// namespace only.
type Secrets map[string]map[string]Secret

// SetSecrets makes these what proxies get that ask for secrets. Without a call none are served. A secret that is not
// among them any more stays with the proxies that have it: they would serve nobody without.
func (s *Server) SetSecrets(all Secrets) {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	v, changed := s.vault.Load().next(all)
	s.vault.Store(v)
	if g := s.current.Load(); g != nil && len(changed) > 0 {
		s.push(g.mesh, model.Change{Since: time.Now(), Keys: changed, Count: len(changed)})
	}
}

// vault holds secrets as resources, immutable; a nil one is of a server that serves none.
type vault struct{ sets map[string]*set }

// next returns the vault of these secrets, which shares with v what did not change, and the namespaces that did.
func (v *vault) next(all Secrets) (*vault, []string) {
	out := &vault{sets: map[string]*set{"": newSet(sds, nil)}}
	var changed []string
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		var list []*resource
		for name, secret := range all[namespace] {
			list = append(list, encode(name, secret.message(name)))
		}
		slices.SortFunc(list, byName)
		out.sets[namespace] = newSet(sds, list)
	}
	if v != nil {
		for namespace, old := range v.sets {
			if now := out.of(namespace); now.version == old.version {
				out.sets[namespace] = old
			} else {
				changed = append(changed, "secrets/"+namespace)
			}
		}
	}
	for namespace := range out.sets {
		if v == nil || v.sets[namespace] == nil {
			changed = append(changed, "secrets/"+namespace)
		}
	}
	slices.Sort(changed)
	return out, changed
}

// of returns the secrets of a namespace, none where it has none.
func (v *vault) of(namespace string) *set {
	if s := v.sets[namespace]; s != nil {
		return s
	}
	return v.sets[""]
}

func (s Secret) message(name string) *tlsv3.Secret {
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

// maySeeSecrets says why a stream gets none. With a certificate its namespace was checked already; in plaintext
// a private key must not leave this host.
func (s *Server) maySeeSecrets(ctx context.Context) error {
	if s.vault.Load() == nil {
		return status.Error(codes.Unimplemented, "secrets are not served: proxies read certificates from files")
	}
	if _, secure := linkOf(ctx).AuthInfo.(credentials.TLSInfo); secure {
		return nil
	}
	if p, ok := peer.FromContext(ctx); ok {
		if address, ok := p.Addr.(*net.TCPAddr); ok && address.IP.IsLoopback() {
			return nil
		}
	}
	return status.Error(codes.PermissionDenied, "secrets are sent with mTLS only, or on loopback")
}
