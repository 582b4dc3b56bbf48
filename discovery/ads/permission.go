package ads

import (
	"context"
	"crypto/tls"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/local"
)

// maySeeObjects returns an error with the reason if a stream gets no objects. Objects show the whole mesh, as the debug
// pages do. In plaintext only programs on this host may read them; with mutual TLS a control plane, which has a
// certificate of the root namespace.
func (h *hub) maySeeObjects(ctx context.Context) error {
	if _, secure := linkOf(ctx).AuthInfo.(credentials.TLSInfo); secure {
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

// MaySeeAll returns an error with the reason if a client with mutual TLS may not see the whole mesh, as objects and debug pages show it: that takes
// a certificate of the root namespace. Before the first mesh nobody may, for its settings say which namespace and trust domains these are.
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
	if h.vault.Load() == nil {
		return status.Error(codes.Unimplemented, "secrets are not served: proxies read certificates from files")
	}
	if _, secure := linkOf(ctx).AuthInfo.(credentials.TLSInfo); secure {
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
