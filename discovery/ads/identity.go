package ads

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
	"github.com/pilotlight/pilotlight/internal/spiffe"
)

// identify reads the node of the first request; later ones may leave it out.
func (st *stream) identify(r *request) error {
	if r.typeURL == "" {
		return status.Error(codes.InvalidArgument, "request has no type_url, which an aggregated stream needs")
	}
	if st.identified() {
		return nil
	}
	node, err := r.parseNode()
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "node: %v", err)
	}
	if asksForObjects(node) {
		return errForObjects
	}
	if node.GetId() == "" {
		return status.Error(codes.InvalidArgument, "the stream's first request has no node.id")
	}
	proxy, err := xds.ParseProxy(node)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	shown := st.server.current.Load()
	id, err := authorize(st.wire.Context(), proxy.Namespace(), shown.mesh.Settings().TrustDomains())
	if err != nil {
		st.log.Warn("proxy refused", "node", proxy.ID.String(), "peer", st.peer, "err", err)
		return err
	}
	own := reader{View: xds.ViewOf(proxy), account: id.account}
	owner := id.owner(st.peer)
	if own.Outbound.Locality == (model.Locality{}) {
		st.place = &place{claim: proxy.Claim(id.account), owner: owner}
		own.Outbound.Locality, _ = st.place.find(shown.mesh)
	}
	if err := st.enter(owner, own.Outbound.In(shown.mesh), st.server.limits.ViewsPerIdentity); err != nil {
		st.log.Warn("proxy refused", "node", proxy.ID.String(), "peer", st.peer, "err", err)
		return err
	}
	st.node, st.reader = proxy.ID.String(), own
	st.intake.Identified()
	st.version = versionOf(node)
	st.log.Info("proxy connected", "node", st.node, "peer", st.peer)
	if fault := st.fault(shown); fault != "" {
		st.log.Warn("short names of services do not work for a proxy", "node", st.node, "peer", st.peer, "reason", fault)
	}
	return nil
}

// fault returns the fault of the proxy's node, "" for none.
func (st *stream) fault(g *generation) string {
	return clip(st.reader.DomainFault(g.mesh.Settings().Domain))
}

// enter counts the stream as one of a view, unless an identity has limit others already; 0 for no limit.
func (st *stream) enter(owner string, view xds.Outbound, limit int) error {
	if err := st.server.viewers.enter(owner, view, limit); err != nil {
		return err
	}
	st.leaves = func() { st.server.viewers.leave(owner, view) }
	return nil
}

// refuse leaves a request for a type without an answer: the other types of the stream must go on. If the stream carries
// no other type, the reason ends it.
func (st *stream) refuse(typeURL string, reason error) error {
	if st.only != aggregated && reason != nil {
		return reason
	}
	if st.unknown[typeURL] || len(st.unknown) == maxUnknownTypes {
		return nil
	}
	if st.unknown == nil {
		st.unknown = map[string]bool{}
	}
	st.unknown[typeURL] = true
	st.log.Info("type is not served", "node", st.node, "type_url", typeURL, "reason", reason)
	return nil
}

// versionOf returns the version that a client reports, such as "envoy 1.40.0".
func versionOf(n *corev3.Node) string {
	if v := n.GetUserAgentBuildVersion().GetVersion(); v != nil {
		return clip(fmt.Sprintf("%s %d.%d.%d", n.GetUserAgentName(), v.MajorNumber, v.MinorNumber, v.Patch))
	}
	return clip(strings.TrimSpace(n.GetUserAgentName() + " " + n.GetUserAgentVersion()))
}

// identity holds the facts that a proxy's certificate proves. The zero value is for a proxy without a certificate:
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
	if len(info.State.PeerCertificates) == 0 {
		return identity{}, status.Error(codes.PermissionDenied, "the client has no certificate")
	}
	id, err := identityOf(info.State.PeerCertificates[0])
	if err != nil {
		return identity{}, status.Errorf(codes.PermissionDenied, "node is of namespace %q: %v: want spiffe://TRUST_DOMAIN/ns/%s/sa/ACCOUNT",
			namespace, err, namespace)
	}
	if id.namespace == namespace && slices.Contains(trustDomains, id.trustDomain) {
		return id, nil
	}
	return identity{}, status.Errorf(codes.PermissionDenied,
		"node is of namespace %q, its certificate is for %q: want spiffe://TRUST_DOMAIN/ns/%s/sa/ACCOUNT with a TRUST_DOMAIN of %q, "+
			"as trustDomain and trustDomainAliases of MeshConfig say", namespace, id, namespace, trustDomains)
}

// identityOf reads Istio's form of an identity, spiffe://trust.domain/ns/NAMESPACE/sa/ACCOUNT.
func identityOf(certificate *x509.Certificate) (identity, error) {
	id, err := spiffe.Of(certificate)
	if err != nil {
		return identity{}, err
	}
	if len(id.Path) != 4 || id.Path[0] != "ns" || id.Path[2] != "sa" {
		return identity{}, fmt.Errorf("its certificate is for %q", id)
	}
	return identity{id.TrustDomain, id.Path[1], id.Path[3]}, nil
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
