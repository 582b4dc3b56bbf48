package ads

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/internal/spiffe"
)

// claim finds the identity that a token proves, for a client without a certificate. It may ask an API server, so it must not be called with a lock held. It does
// nothing after the first request, and where a certificate or nobody proves.
func (st *stream) claim() error {
	prove := st.prove
	st.prove = nil
	ctx := st.wire.Context()
	at := linkOf(ctx)
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
