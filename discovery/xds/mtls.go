package xds

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	commonstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Automatic mutual TLS: a proxy with a certificate speaks it to the endpoints whose proxies take it, and plain text to the others
// of the same cluster.

// automatic reports whether the target's cluster chooses between mutual TLS and plain text: by endpoint, or, where it dials the address of
// the client, for all of them. One that leads through a gateway of its own network as it comes has the client's TLS already.
func (t target) automatic() bool {
	enabled := t.mesh.Config.GetEnableAutoMtls()
	return t.view.Identity.Certified && !t.view.Proxyless && !t.service.External && !t.entered &&
		(enabled == nil || enabled.Value)
}

// mutual reports whether the target's cluster speaks mutual TLS to an endpoint: the endpoint's proxy takes it, and no policy
// refuses it at the port.
func (t target) mutual(e model.Endpoint) bool {
	return t.policy.tls == nil && t.automatic() && e.TakesMutualTLS() && t.peers.Of(e.Labels).Mode(e.PortOn(t.port)) != model.PeerDisable
}

// everyMutual reports whether a cluster that dials the address of the client speaks mutual TLS, as all endpoints take it, ready or not.
// Without an endpoint those that it had last decide, else the mode of the namespace: plain text would reach nothing under STRICT.
func (t target) everyMutual() bool {
	n, all := 0, t.service.Endpoints
	if len(all) == 0 {
		all = t.gone
	}
	for _, e := range all {
		if !model.Selects(t.subset.GetLabels(), e.Labels) || e.PortOn(t.port) == 0 {
			continue
		}
		if n++; !t.mutual(e) {
			return false
		}
	}
	return n > 0 || t.strict
}

// socketMatch is the key of Envoy's metadata by which endpoints choose a transport socket, and tlsMode the one of Istio in it.
const (
	socketMatch = "envoy.transport_socket_match"
	tlsMode     = "tlsMode"
)

func peerMatch() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{tlsMode: structpb.NewStringValue(meshALPN)}}
}

func peerMetadata() *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{socketMatch: peerMatch()}}
}

func rawBuffer() *corev3.TransportSocket {
	return transportSocket("envoy.transport_sockets.raw_buffer", &rawbufferv3.RawBuffer{})
}

// peerSockets returns the transport sockets of a cluster: mutual TLS for endpoints with the metadata, else plain text.
func (t target) peerSockets() []*clusterv3.Cluster_TransportSocketMatch {
	return []*clusterv3.Cluster_TransportSocketMatch{
		{Name: "tlsMode-istio", Match: peerMatch(), TransportSocket: t.peerSocket()},
		{Name: "tlsMode-disabled", Match: &structpb.Struct{}, TransportSocket: rawBuffer()},
	}
}

// peerSocket returns the client's side of mutual TLS.
func (t target) peerSocket() *corev3.TransportSocket {
	context := &tlsv3.UpstreamTlsContext{
		Sni: model.ServerName(t.port.Number, t.subset.GetName(), t.service.Host),
		CommonTlsContext: &tlsv3.CommonTlsContext{AlpnProtocols: t.peerALPN(), TlsParams: &tlsv3.TlsParameters{
			TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		}},
	}
	if len(context.Sni) > model.MaxServerName { // reported in the notes
		context.Sni = ""
	}
	t.view.Identity.setOwn(context.CommonTlsContext, validation{names: t.mesh.SubjectsOfEndpoints(t.service)})
	return transportSocket(tlsSocket, context)
}

// marksHTTP returns the filter by which a request that leads to a cluster with a mark replaces the protocols that the cluster offers.
// Envoy's own requests, such as mirrored ones, do not pass it.
func marksHTTP() *hcmv3.HttpFilter {
	return httpFilter("envoy.filters.http.set_filter_state", &statev3.Config{OnRequestHeaders: []*commonstatev3.FilterStateValue{{
		Key: &commonstatev3.FilterStateValue_ObjectKey{ObjectKey: "envoy.network.application_protocols"},
		Value: &commonstatev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: "%METADATA(CLUSTER:" + markOf + ":" + markKey + ")%"},
			}},
			OmitEmptyValues: true,
		}},
		SkipIfEmpty: true,
	}}})
}

// The metadata of a cluster of which a server's proxy learns by ALPN, request by request, that a connection carries HTTP.
const (
	markOf  = "pilotlight"
	markKey = "alpn"
)

// mark returns the metadata of a cluster that offers protocols: where the server's proxy would take requests for bytes.
func (t target) mark(offered []string) *corev3.Metadata {
	if t.port.Protocol != model.Unknown || len(offered) != 1 || t.view.Proxyless {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{markOf: {Fields: map[string]*structpb.Value{
		markKey: structpb.NewStringValue("istio-http/1.1," + meshALPN),
	}}}}
}

// MarkedALPN returns the protocols that a request offers instead of those of its cluster; nil for these.
func MarkedALPN(c *clusterv3.Cluster) []string {
	text := c.GetMetadata().GetFilterMetadata()[markOf].GetFields()[markKey].GetStringValue()
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// peerALPN returns the protocols that the cluster offers. The first one tells the server what the connection carries: at a port without a
// declared protocol that is bytes, unless marksHTTP replaces it.
func (t target) peerALPN() []string {
	switch options := t.policy.httpOptions(t); {
	case options.explicitHTTP2():
		return []string{"istio-h2", meshALPN, "h2"}
	case t.port.Protocol.IsHTTP() && !options.client:
		return []string{"istio-http/1.1", meshALPN, "http/1.1"}
	default:
		return []string{meshALPN}
	}
}

// guard decides which connections a port of the workload takes.
type guard uint8

const (
	guardNone   guard = iota // any, as without policies
	guardBoth                // mutual TLS is terminated; any other connection as without policies
	guardMutual              // mutual TLS only
	guardClosed              // none: mutual TLS only, and the proxy has no certificate
)

// guardOf returns the guard of a port. A port with TLS of its own keeps that under PERMISSIVE: plain text would be let in
// otherwise.
func (v Inbound) guardOf(mode model.PeerMode, own *networking.ServerTLSSettings) guard {
	if own.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL {
		mode = model.PeerStrict
	}
	switch {
	case mode == model.PeerStrict && !v.Certified:
		return guardClosed
	case mode == model.PeerStrict:
		return guardMutual
	case mode == model.PeerDisable || own != nil || !v.Certified:
		return guardNone
	default:
		return guardBoth
	}
}

// inspects reports whether TLS must be detected in the first bytes of connections.
func (g guard) inspects() bool { return g == guardBoth || g == guardMutual }

// The ALPN names by which Istio's sidecars, and ours, mark connections between each other.
func httpPeerALPN() []string { return []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"} }

func tcpPeerALPN() []string { return []string{"istio-peer-exchange", meshALPN} }

func peerALPN() []string { return append(tcpPeerALPN(), httpPeerALPN()...) }

// entrance is where connections to one port of the workload, or to all ports that nobody declares, lead.
type entrance struct {
	protocol model.Protocol
	detected []string // the application protocols of HTTP that is detected
	http     func(mutual bool) *listenerv3.Filter
	tcp      *listenerv3.Filter
	socket   *corev3.TransportSocket // of mutual TLS
}

// chains returns the filter chains for a guard, with Istio's matches: all of them name a transport protocol, for Envoy
// does not go back from a chain that does to one that does not.
func (e entrance) chains(g guard) []*listenerv3.FilterChain {
	only := func(f *listenerv3.Filter) []*listenerv3.Filter { return []*listenerv3.Filter{f} }
	mutual := func(f *listenerv3.Filter, alpn ...string) *listenerv3.FilterChain {
		c := chainOver("tls", alpn...)
		c.Filters, c.TransportSocket = only(f), e.socket
		awaitClient(c)
		return c
	}
	plain := func(transport string, f *listenerv3.Filter, alpn ...string) *listenerv3.FilterChain {
		c := chainOver(transport, alpn...)
		c.Filters = only(f)
		return c
	}
	switch {
	case g == guardMutual && e.protocol == model.Unknown:
		return []*listenerv3.FilterChain{mutual(e.http(true), httpPeerALPN()...), mutual(e.tcp)}
	case g == guardMutual && e.protocol.IsHTTP():
		return []*listenerv3.FilterChain{mutual(e.http(true))}
	case g == guardMutual:
		return []*listenerv3.FilterChain{mutual(e.tcp)}
	case e.protocol == model.Unknown:
		out := []*listenerv3.FilterChain{
			plain("raw_buffer", e.http(false), e.detected...), plain("raw_buffer", e.tcp), plain("tls", e.tcp),
		}
		if g == guardBoth {
			out = append([]*listenerv3.FilterChain{mutual(e.http(true), httpPeerALPN()...), mutual(e.tcp, tcpPeerALPN()...)}, out...)
		}
		return out
	case e.protocol.IsHTTP():
		return []*listenerv3.FilterChain{mutual(e.http(true), peerALPN()...), plain("raw_buffer", e.http(false))}
	default:
		return []*listenerv3.FilterChain{mutual(e.tcp, peerALPN()...), plain("tls", e.tcp), plain("raw_buffer", e.tcp)}
	}
}

func chainOver(transport string, alpn ...string) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{FilterChainMatch: &listenerv3.FilterChainMatch{TransportProtocol: transport, ApplicationProtocols: alpn}}
}

// peerSocket returns the server's side of mutual TLS: clients need a certificate of the mesh, for the trust domain or an alias
// of it. It never agrees on an ALPN name of Istio's, by which clients only mark the connection.
func (v Inbound) peerSocket(mesh model.Settings) *corev3.TransportSocket {
	common := &tlsv3.CommonTlsContext{AlpnProtocols: []string{"h2", "http/1.1"}, TlsParams: peerParams(mesh)}
	var prefixes []string
	for _, domain := range mesh.TrustDomains() {
		prefixes = append(prefixes, "spiffe://"+domain+"/")
	}
	v.setOwn(common, validation{prefixes: prefixes})
	return transportSocket(tlsSocket, &tlsv3.DownstreamTlsContext{CommonTlsContext: common, RequireClientCertificate: wrapperspb.Bool(true)})
}

func peerParams(mesh model.Settings) *tlsv3.TlsParameters {
	out := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		CipherSuites: model.ServedCiphers(mesh.Config.GetMeshMTLS().GetCipherSuites()),
	}
	if mesh.Config.GetMeshMTLS().GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 {
		out.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
	}
	return out
}
