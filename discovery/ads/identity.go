package ads

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/local"
	"github.com/pilotlight/pilotlight/internal/spiffe"
)

// identity holds the facts that a proxy's certificate or token proves. The zero value is for a proxy with neither:
// plaintext is for a trusted network.
type identity struct{ trustDomain, namespace, account string }

func (id identity) String() string {
	return fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", id.trustDomain, id.namespace, id.account)
}

// authorize checks that a client with a certificate requests the configuration of its own namespace only. Configuration
// shows which services a namespace may call, and one workload's certificate must not give access to another
// namespace's. A namespace of a foreign trust domain is a different namespace, even under the same name.
func authorize(ctx context.Context, namespace string, trustDomains []string) (identity, error) {
	info, secure := connInfoOf(ctx).AuthInfo.(credentials.TLSInfo)
	if !secure {
		return identity{}, nil
	}
	return authorizeOver(info.State, namespace, trustDomains)
}

// authorizeOver is authorize over a connection of TLS.
func authorizeOver(state tls.ConnectionState, namespace string, trustDomains []string) (identity, error) {
	if len(state.PeerCertificates) == 0 {
		return identity{}, status.Error(codes.PermissionDenied, "the client has no certificate")
	}
	id, err := identityOf(state.PeerCertificates[0])
	if err != nil {
		return identity{}, status.Errorf(codes.PermissionDenied, "node is of namespace %q: %v: want spiffe://TRUST_DOMAIN/ns/%s/sa/ACCOUNT",
			namespace, err, namespace)
	}
	return id, id.may("certificate", namespace, trustDomains)
}

// may returns an error unless an identity, with its proof, may have the configuration of a namespace.
func (id identity) may(proof, namespace string, trustDomains []string) error {
	if id.namespace == namespace && slices.Contains(trustDomains, id.trustDomain) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied,
		"node is of namespace %q, its %s is for %q: want spiffe://TRUST_DOMAIN/ns/%s/sa/ACCOUNT with a TRUST_DOMAIN of %q, "+
			"as trustDomain and trustDomainAliases of MeshConfig say", namespace, proof, id, namespace, trustDomains)
}

// identityOf reads Istio's form of an identity, spiffe://trust.domain/ns/NAMESPACE/sa/ACCOUNT.
func identityOf(certificate *x509.Certificate) (identity, error) {
	id, err := spiffe.Of(certificate)
	if err != nil {
		return identity{}, err
	}
	if of, isIstios := fromID(id); isIstios {
		return of, nil
	}
	return identity{}, fmt.Errorf("its certificate is for %q", id)
}

// fromID reads Istio's form of a SPIFFE ID.
func fromID(id spiffe.ID) (identity, bool) {
	if len(id.Path) != 4 || id.Path[0] != "ns" || id.Path[2] != "sa" {
		return identity{}, false
	}
	return identity{id.TrustDomain, id.Path[1], id.Path[3]}, true
}

// owner returns the name of an identity, or the host of a client without a certificate.
func (id identity) owner(peer string) string {
	if id != (identity{}) {
		return id.String()
	}
	if host, _, err := net.SplitHostPort(peer); err == nil {
		return host
	}
	return peer
}

// claim finds the identity that a token proves, for a client without a certificate. It may ask an API server, so it
// must not be called with a lock held. It does nothing after the first request, and where a certificate or nobody
// proves.
func (st *stream) claim() error {
	prove := st.prove
	st.prove = nil
	ctx := st.wire.Context()
	at := connInfoOf(ctx)
	info, secure := at.AuthInfo.(credentials.TLSInfo)
	token := tokenOf(ctx)
	if prove == nil || !secure || len(info.State.PeerCertificates) > 0 || token == "" {
		return nil
	}
	text, err := prove(ctx, Application{Token: token, Address: addressOf(at.conn)})
	if err != nil {
		return err
	}
	id, err := spiffe.Parse(text)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	claimed, isIstios := fromID(id)
	if !isIstios {
		return status.Errorf(codes.PermissionDenied, "its token is for %q, want spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT", id)
	}
	st.claimed = claimed
	return nil
}

// authorize checks that a proxy may have the configuration of its node's namespace, and returns its identity.
func (st *stream) authorize(namespace string, trustDomains []string) (identity, error) {
	if st.claimed != (identity{}) {
		return st.claimed, st.claimed.may("token", namespace, trustDomains)
	}
	return authorize(st.wire.Context(), namespace, trustDomains)
}

// tokenOf returns the token that a client shows, "" for none: a text without Bearer is none.
func tokenOf(ctx context.Context) string {
	if given := metadata.ValueFromIncomingContext(ctx, "authorization"); len(given) > 0 {
		if token, bearer := strings.CutPrefix(given[0], "Bearer "); bearer {
			return strings.TrimSpace(token)
		}
	}
	return ""
}

// maySeeObjects returns an error with the reason if a stream gets no objects. Objects show the whole mesh, as the debug
// pages do. In plaintext only programs on this host may read them; with mutual TLS a control plane, which has a
// certificate of the root namespace.
func (h *hub) maySeeObjects(ctx context.Context) error {
	if _, secure := connInfoOf(ctx).AuthInfo.(credentials.TLSInfo); secure {
		settings := h.current.Load().Mesh.Settings()
		_, err := authorize(ctx, settings.RootNamespace(), settings.TrustDomains())
		return err
	}
	if !h.limits.ExposeObjects && !local.Peer(peerOf(ctx)) {
		return status.Error(codes.PermissionDenied, "configuration objects are sent over mutual TLS with a certificate of the root namespace, "+
			"and in plaintext to 127.0.0.1 and ::1 only")
	}
	return nil
}

// MaySeeAll returns an error with the reason if a client with mutual TLS may not see the whole mesh, as objects and
// debug pages show it: that takes a certificate of the root namespace. Before the first mesh nobody may, for its
// settings say which namespace and trust domains these are.
func MaySeeAll(mesh *model.Mesh, over tls.ConnectionState) error {
	if mesh == nil {
		return errors.New("the root namespace and the trust domains are not known yet")
	}
	settings := mesh.Settings()
	_, err := authorizeOver(over, settings.RootNamespace(), settings.TrustDomains())
	return err
}

// maySeeSecrets returns an error with the reason if a stream gets no secrets. A private key leaves discovery over mTLS
// only, where the namespace of the certificate was checked already, unless the operator allows programs on this host to
// request it in plaintext.
func (h *hub) maySeeSecrets(ctx context.Context) error {
	if h.secretResources.Load() == nil {
		return status.Error(codes.Unimplemented, "secrets are not served: proxies read certificates from files")
	}
	if _, secure := connInfoOf(ctx).AuthInfo.(credentials.TLSInfo); secure {
		return nil
	}
	if !h.limits.PlaintextSecrets {
		return status.Error(codes.PermissionDenied, "secrets are sent with mTLS only")
	}
	if !local.Peer(peerOf(ctx)) {
		return status.Error(codes.PermissionDenied, "secrets are sent with mTLS, and in plaintext to 127.0.0.1 and ::1 only")
	}
	return nil
}
