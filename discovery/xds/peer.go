package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
