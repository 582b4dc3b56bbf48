package ads

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

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
	info, secure := linkOf(ctx).AuthInfo.(credentials.TLSInfo)
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
