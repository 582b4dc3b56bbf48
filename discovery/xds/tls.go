package xds

import (
	"cmp"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	tlsSocket = "envoy.transport_sockets.tls"
	// systemRoots is the file of public root certificates in the Linux distributions that proxies run on.
	systemRoots = "/etc/ssl/certs/ca-certificates.crt"
	// meshALPN is the ALPN protocol that marks connections between proxies; it precedes those of the application.
	meshALPN = "istio"
)

func transportSocket(name string, config proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       name,
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(config)},
	}
}

// namesHost reports whether the SNI of a handshake is the request's host, since the policy has no sni. TCP without HTTP
// has no host: Envoy then sends no SNI.
func namesHost(tls *networking.ClientTLSSettings) bool {
	switch tls.GetMode() {
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		return tls.Sni == ""
	default:
		return false
	}
}

// verifiesHost reports whether the server's certificate must be valid for the request's host, since the policy sets no
// other name.
func verifiesHost(tls *networking.ClientTLSSettings) bool {
	return namesHost(tls) && len(tls.SubjectAltNames) == 0 && !tls.GetInsecureSkipVerify().GetValue()
}

// applyTLS sets the TLS settings of the policy.
func (p policy) applyTLS(c *clusterv3.Cluster, t target) {
	tls := p.tls
	switch {
	case tls != nil || !t.automatic():
	case !t.originalDestination():
		c.TransportSocketMatches, c.Metadata = t.peerSockets(), t.mark(t.peerALPN())
	case t.everyMutual():
		c.TransportSocket, c.Metadata = t.peerSocket(), t.mark(t.peerALPN())
	}
	if tls.GetMode() == networking.ClientTLSSettings_DISABLE || tls == nil {
		return
	}
	// Envoy's default maximum for upstream connections is TLS 1.2.
	versions := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
	if tls.Mode != networking.ClientTLSSettings_ISTIO_MUTUAL {
		if t.mesh.Config.GetTlsDefaults().GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 {
			versions.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
		}
		versions = withDefaults(versions, t.mesh.Config.GetTlsDefaults())
	}
	context := &tlsv3.UpstreamTlsContext{Sni: tls.Sni, CommonTlsContext: &tlsv3.CommonTlsContext{TlsParams: versions}}
	if p.httpOptions(t).explicitHTTP2() {
		context.CommonTlsContext.AlpnProtocols = []string{"h2"}
	}
	switch tls.Mode {
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		context.Sni = cmp.Or(tls.Sni, model.ServerName(t.port.Number, t.subset.GetName(), t.service.Host))
		if len(context.Sni) > model.MaxServerName { // reported in the notes
			context.Sni = ""
		}
		context.CommonTlsContext.AlpnProtocols = append([]string{meshALPN}, context.CommonTlsContext.AlpnProtocols...)
		names := tls.SubjectAltNames
		if len(names) == 0 {
			names = t.mesh.SubjectsOfEndpoints(t.service)
		}
		t.view.Identity.setOwn(context.CommonTlsContext, validation{names: names})
		c.Metadata = t.mark(context.CommonTlsContext.AlpnProtocols)
	case networking.ClientTLSSettings_MUTUAL:
		t.view.Identity.setCertificate(context.CommonTlsContext, tls.ClientCertificate, tls.PrivateKey, tls.CredentialName)
		t.view.Identity.setValidation(context.CommonTlsContext, t.clientValidation(tls))
	default:
		t.view.Identity.setValidation(context.CommonTlsContext, t.clientValidation(tls))
	}
	c.TransportSocket = transportSocket(tlsSocket, context)
}

func (t target) clientValidation(tls *networking.ClientTLSSettings) validation {
	names := tls.SubjectAltNames
	if len(names) == 0 {
		names = t.mesh.Subjects(t.service)
	}
	v := validation{root: cmp.Or(tls.CaCertificates, systemRoots), names: names, crl: tls.CaCrl}
	if tls.CredentialName != "" {
		_, name := model.Lent(tls.CredentialName)
		v.root, v.secret = "", name+"-cacert"
	}
	if tls.GetInsecureSkipVerify().GetValue() {
		return validation{}
	}
	return v
}

func exactly(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

// terminate has a chain end TLS, if there are settings for it.
func terminate(c *listenerv3.FilterChain, context *tlsv3.DownstreamTlsContext) {
	if context == nil {
		return
	}
	c.TransportSocket = transportSocket(tlsSocket, context)
	if context.GetRequireClientCertificate().GetValue() {
		awaitClient(c)
	}
}

// awaitClient has TCP proxies of a chain wait for the handshake before they open a connection to the cluster. Otherwise a
// client without a certificate has the workload accept connections: it is refused only after that.
func awaitClient(c *listenerv3.FilterChain) {
	for i, f := range c.Filters {
		tcp := &tcpproxyv3.TcpProxy{}
		if !f.GetTypedConfig().MessageIs(tcp) {
			continue
		}
		if err := f.GetTypedConfig().UnmarshalTo(tcp); err != nil { // it was packed here
			panic(fmt.Sprintf("read filter %s: %v", f.Name, err))
		}
		tcp.UpstreamConnectMode = tcpproxyv3.UpstreamConnectMode_ON_DOWNSTREAM_TLS_HANDSHAKE
		tcp.MaxEarlyDataBytes = wrapperspb.UInt32(0)
		c.Filters[i] = networkFilter(f.Name, tcp) // a plain chain may have the other
	}
}

// serverTLS returns the TLS settings of a server; nil for PASSTHROUGH and AUTO_PASSTHROUGH, where the proxy does not
// terminate TLS.
func serverTLS(tls *networking.ServerTLSSettings, mesh model.Settings, id Identity, alpn []string) *tlsv3.DownstreamTlsContext {
	common := &tlsv3.CommonTlsContext{AlpnProtocols: alpn, TlsParams: tlsParams(tls)}
	if tls.Mode == networking.ServerTLSSettings_ISTIO_MUTUAL {
		common.TlsParams = withDefaults(common.TlsParams, &meshconfig.MeshConfig_TLSConfig{CipherSuites: mesh.Config.GetMeshMTLS().GetCipherSuites()})
	} else {
		defaults := mesh.Config.GetTlsDefaults()
		if common.TlsParams = withDefaults(common.TlsParams, defaults); defaults.GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 &&
			tls.MinProtocolVersion == networking.ServerTLSSettings_TLS_AUTO && (tls.MaxProtocolVersion == networking.ServerTLSSettings_TLS_AUTO || tls.MaxProtocolVersion == networking.ServerTLSSettings_TLSV1_3) {
			common.TlsParams.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
		}
	}
	out := &tlsv3.DownstreamTlsContext{CommonTlsContext: common}
	v := validation{
		root: tls.CaCertificates, crl: tls.CaCrl, names: tls.SubjectAltNames,
		spki: tls.VerifyCertificateSpki, hashes: tls.VerifyCertificateHash,
	}
	switch tls.Mode {
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		return nil
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		out.RequireClientCertificate = wrapperspb.Bool(true)
		id.setOwn(common, v)
		return out
	}
	for _, name := range tls.CredentialNames {
		id.setCertificate(common, "", "", name)
	}
	for _, pair := range tls.TlsCertificates {
		id.setCertificate(common, pair.ServerCertificate, pair.PrivateKey, "")
	}
	if len(tls.CredentialNames)+len(tls.TlsCertificates) == 0 {
		id.setCertificate(common, tls.ServerCertificate, tls.PrivateKey, tls.CredentialName)
	}
	switch tls.Mode {
	case networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		credential := tls.CredentialName
		if len(tls.CredentialNames) > 0 {
			credential = tls.CredentialNames[0]
		}
		if name := cmp.Or(tls.CaCertCredentialName, credential); name != "" {
			v.root, v.secret = "", cmp.Or(tls.CaCertCredentialName, name+"-cacert")
		}
		if tls.Mode == networking.ServerTLSSettings_MUTUAL {
			out.RequireClientCertificate = wrapperspb.Bool(true)
		}
		id.setValidation(common, v)
	default:
		if len(v.names)+len(v.spki)+len(v.hashes) > 0 {
			id.setValidation(common, v)
		}
	}
	return out
}

// withDefaults fills what the parameters do not set with what the mesh does.
func withDefaults(own *tlsv3.TlsParameters, of *meshconfig.MeshConfig_TLSConfig) *tlsv3.TlsParameters {
	if len(own.CipherSuites) == 0 {
		own.CipherSuites = model.ServedCiphers(of.GetCipherSuites())
	}
	own.EcdhCurves = model.ServedCurves(of.GetEcdhCurves())
	return own
}

func tlsParams(tls *networking.ServerTLSSettings) *tlsv3.TlsParameters {
	out := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, CipherSuites: model.ServedCiphers(tls.CipherSuites),
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TlsProtocol(tls.MaxProtocolVersion),
	}
	if tls.MinProtocolVersion != networking.ServerTLSSettings_TLS_AUTO {
		out.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TlsProtocol(tls.MinProtocolVersion)
	}
	return out
}
