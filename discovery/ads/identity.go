package ads

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// identify reads the node of the first request; later ones may leave it out.
func (st *stream) identify(r *request) error {
	if r.typeURL == "" {
		return status.Error(codes.InvalidArgument, "request has no type_url, which an aggregated stream needs")
	}
	if st.protocol != nil {
		return nil
	}
	node, err := r.parseNode()
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "node: %v", err)
	}
	if node.GetId() == "" {
		return status.Error(codes.InvalidArgument, "the stream's first request has no node.id")
	}
	proxy, err := xds.ParseProxy(node)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := authorize(st.wire.Context(), proxy.Namespace()); err != nil {
		st.log.Warn("proxy refused", "node", proxy.ID.String(), "peer", st.peer, "err", err)
		return err
	}
	st.node, st.view = proxy.ID.String(), xds.ViewOf(proxy)
	st.version = versionOf(node)
	st.shown = st.server.current.Load()
	st.protocol = newProtocol(st.variant, st.shown.snapshot(st.view), st.shown.share)
	st.log.Info("proxy connected", "node", st.node, "peer", st.peer)
	return nil
}

// refuse leaves a request for a type without an answer: what else the stream carries must go on. Where it carries
// nothing else, the reason ends it.
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

// versionOf is what a client says it is, "envoy 1.40.0".
func versionOf(n *corev3.Node) string {
	if v := n.GetUserAgentBuildVersion().GetVersion(); v != nil {
		return clip(fmt.Sprintf("%s %d.%d.%d", n.GetUserAgentName(), v.MajorNumber, v.MinorNumber, v.Patch))
	}
	return clip(strings.TrimSpace(n.GetUserAgentName() + " " + n.GetUserAgentVersion()))
}

// authorize checks that a client with a certificate speaks for its own namespace only: configuration shows what a
// namespace may call, and one workload's certificate must not open another's. Plaintext is for a trusted network.
func authorize(ctx context.Context, namespace string) error {
	info, secure := linkOf(ctx).AuthInfo.(credentials.TLSInfo)
	if !secure {
		return nil
	}
	if len(info.State.PeerCertificates) == 0 {
		return status.Error(codes.PermissionDenied, "the client has no certificate")
	}
	var found []string
	for _, uri := range info.State.PeerCertificates[0].URIs {
		own, ok := namespaceOf(uri)
		if ok && own == namespace {
			return nil
		}
		found = append(found, uri.String())
	}
	return status.Errorf(codes.PermissionDenied,
		"node is of namespace %q, its certificate is for %q: want spiffe://TRUST_DOMAIN/ns/%s/sa/ACCOUNT", namespace, found, namespace)
}

// namespaceOf reads Istio's form of an identity, spiffe://trust.domain/ns/NAMESPACE/sa/ACCOUNT.
func namespaceOf(uri *url.URL) (string, bool) {
	parts := strings.Split(uri.Path, "/")
	if uri.Scheme != "spiffe" || len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" || parts[2] == "" {
		return "", false
	}
	return parts[2], true
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
