package xds

import (
	"cmp"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

const (
	tlsSocket = "envoy.transport_sockets.tls"
	// systemRoots is where the distributions that proxies run on keep the roots that the world trusts.
	systemRoots = "/etc/ssl/certs/ca-certificates.crt"
	// meshALPN marks connections between proxies, before the protocols that they carry.
	meshALPN = "istio"
)

func transportSocket(name string, config proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       name,
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(config)},
	}
}

// verifiesHost reports whether the server is the one that the request names, since the policy names none.
func verifiesHost(tls *networking.ClientTLSSettings) bool {
	switch tls.GetMode() {
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		return tls.Sni == "" && len(tls.SubjectAltNames) == 0 && !tls.GetInsecureSkipVerify().GetValue()
	default:
		return false
	}
}

// applyTLS encrypts as the policy says.
func (p policy) applyTLS(c *clusterv3.Cluster, t target) {
	tls := p.tls
	if tls.GetMode() == networking.ClientTLSSettings_DISABLE || tls == nil {
		return
	}
	context := &tlsv3.UpstreamTlsContext{Sni: tls.Sni, CommonTlsContext: &tlsv3.CommonTlsContext{}}
	if t.port.Protocol.IsHTTP2() || upgrades(p.pool.GetHttp(), t) {
		context.CommonTlsContext.AlpnProtocols = []string{"h2"}
	}
	switch tls.Mode {
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		id := t.view.Identity
		context.Sni = cmp.Or(tls.Sni, sniName(t.port.Number, t.subset.GetName(), t.service.Host))
		context.CommonTlsContext.AlpnProtocols = append([]string{meshALPN}, context.CommonTlsContext.AlpnProtocols...)
		setCertificate(context.CommonTlsContext, id.Certificate, id.Key, "")
		names := tls.SubjectAltNames
		if len(names) == 0 {
			names = t.service.SubjectAltNames
		}
		setValidation(context.CommonTlsContext, validation{root: id.Root, names: names})
	case networking.ClientTLSSettings_MUTUAL:
		setCertificate(context.CommonTlsContext, tls.ClientCertificate, tls.PrivateKey, tls.CredentialName)
		setValidation(context.CommonTlsContext, t.clientValidation(tls))
	default:
		setValidation(context.CommonTlsContext, t.clientValidation(tls))
	}
	c.TransportSocket = transportSocket(tlsSocket, context)
}

func (t target) clientValidation(tls *networking.ClientTLSSettings) validation {
	names := tls.SubjectAltNames
	if len(names) == 0 {
		names = t.service.SubjectAltNames
	}
	v := validation{root: cmp.Or(tls.CaCertificates, systemRoots), names: names, crl: tls.CaCrl}
	if tls.CredentialName != "" {
		v.root, v.secret = "", tls.CredentialName+"-cacert"
	}
	if tls.GetInsecureSkipVerify().GetValue() {
		return validation{}
	}
	return v
}

// setCertificate names a certificate by its files, or by the name of a secret.
func setCertificate(c *tlsv3.CommonTlsContext, chain, key, secret string) {
	if secret != "" {
		c.TlsCertificateSdsSecretConfigs = append(c.TlsCertificateSdsSecretConfigs, secretNamed(secret))
		return
	}
	c.TlsCertificates = append(c.TlsCertificates,
		&tlsv3.TlsCertificate{CertificateChain: fileSource(chain), PrivateKey: fileSource(key)})
}

// validation is what a peer's certificate must be. The zero value takes any.
type validation struct {
	root, secret, crl string
	names             []string
	spki, hashes      []string
}

func setValidation(c *tlsv3.CommonTlsContext, v validation) {
	context := &tlsv3.CertificateValidationContext{VerifyCertificateSpki: v.spki, VerifyCertificateHash: v.hashes}
	if v.root != "" {
		context.TrustedCa = fileSource(v.root)
	}
	if v.crl != "" {
		context.Crl = fileSource(v.crl)
	}
	for _, name := range v.names {
		for _, kind := range []tlsv3.SubjectAltNameMatcher_SanType{
			tlsv3.SubjectAltNameMatcher_DNS,
			tlsv3.SubjectAltNameMatcher_URI,
		} {
			context.MatchTypedSubjectAltNames = append(context.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
				SanType: kind, Matcher: exactly(name),
			})
		}
	}
	switch {
	case v.secret != "":
		c.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext: context, ValidationContextSdsSecretConfig: secretNamed(v.secret),
			},
		}
	case !proto.Equal(context, &tlsv3.CertificateValidationContext{}):
		c.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: context}
	}
}

// secretTimeout is how long Envoy waits for a secret before it goes on without: until then it holds up all clusters that
// were told at once, and what is told after them.
const secretTimeout = time.Second

// secretNamed is fetched over ADS as well.
func secretNamed(name string) *tlsv3.SdsSecretConfig {
	source := overADS()
	source.InitialFetchTimeout = durationpb.New(secretTimeout)
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: source}
}

func fileSource(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}

func exactly(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

// serverTLS returns how a server presents itself; nil for PASSTHROUGH and AUTO_PASSTHROUGH, whose TLS is not ended here.
func serverTLS(tls *networking.ServerTLSSettings, id Identity, alpn []string) *tlsv3.DownstreamTlsContext {
	common := &tlsv3.CommonTlsContext{AlpnProtocols: alpn, TlsParams: tlsParams(tls)}
	out := &tlsv3.DownstreamTlsContext{CommonTlsContext: common}
	v := validation{
		root: tls.CaCertificates, crl: tls.CaCrl, names: tls.SubjectAltNames,
		spki: tls.VerifyCertificateSpki, hashes: tls.VerifyCertificateHash,
	}
	switch tls.Mode {
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		return nil
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		setCertificate(common, id.Certificate, id.Key, "")
		v.root = id.Root
		out.RequireClientCertificate = wrapperspb.Bool(true)
		setValidation(common, v)
		return out
	}
	for _, name := range tls.CredentialNames {
		setCertificate(common, "", "", name)
	}
	for _, pair := range tls.TlsCertificates {
		setCertificate(common, pair.ServerCertificate, pair.PrivateKey, "")
	}
	if len(tls.CredentialNames)+len(tls.TlsCertificates) == 0 {
		setCertificate(common, tls.ServerCertificate, tls.PrivateKey, tls.CredentialName)
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
		setValidation(common, v)
	default:
		if len(v.names)+len(v.spki)+len(v.hashes) > 0 {
			setValidation(common, v)
		}
	}
	return out
}

func tlsParams(tls *networking.ServerTLSSettings) *tlsv3.TlsParameters {
	out := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, CipherSuites: tls.CipherSuites,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TlsProtocol(tls.MaxProtocolVersion),
	}
	if tls.MinProtocolVersion != networking.ServerTLSSettings_TLS_AUTO {
		out.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TlsProtocol(tls.MinProtocolVersion)
	}
	return out
}
