package xds

import (
	"cmp"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotlight/pilotlight/node"
)

// The static cluster of a proxy's bootstrap where its agent serves secrets, and the names of the proxy's own: Istio's.
const (
	agentCluster     = "sds-grpc"
	agentCertificate = "default"
	agentRoots       = "ROOTCA"
)

// Identity says where a proxy gets certificates from.
type Identity struct {
	// AgentSDS means that the proxy's agent serves by SDS the proxy's own certificate, and those in files.
	AgentSDS bool
	// Files of the proxy's own certificate. They may be empty with AgentSDS: the agent knows the certificate then.
	Certificate, Key, Root string
}

// identity reads it from the proxy's metadata.
func (p Proxy) identity() Identity {
	id := Identity{
		AgentSDS:    p.agentSDS(),
		Certificate: p.text("TLS_CLIENT_CERT_CHAIN"), Key: p.text("TLS_CLIENT_KEY"), Root: p.text("TLS_CLIENT_ROOT_CERT"),
	}
	if !id.AgentSDS {
		id.Certificate = cmp.Or(id.Certificate, "/etc/certs/cert-chain.pem")
		id.Key = cmp.Or(id.Key, "/etc/certs/key.pem")
		id.Root = cmp.Or(id.Root, "/etc/certs/root-cert.pem")
	}
	return id
}

// agentSDS reports whether the proxy's bootstrap has the cluster sds-grpc with an agent behind it. Our agent says so itself.
// Istio's always has it, and is known by its version and by its PROXY_CONFIG, which always has a discoveryAddress.
func (p Proxy) agentSDS() bool {
	if said := p.Metadata.AgentSDS; said != "" {
		return said == node.SDSFiles
	}
	address, _ := p.config()["discoveryAddress"].(string)
	return p.text("ISTIO_VERSION") != "" && address != ""
}

// setOwn presents the proxy's own certificate, and checks a peer's by the roots of the mesh.
func (id Identity) setOwn(c *tlsv3.CommonTlsContext, v validation) {
	if id.AgentSDS && (id.Certificate == "" || id.Key == "") {
		c.TlsCertificateSdsSecretConfigs = append(c.TlsCertificateSdsSecretConfigs, agentSecret(agentCertificate))
	} else {
		id.setCertificate(c, id.Certificate, id.Key, "")
	}
	v.root = id.Root
	if v.root == "" {
		v.agent = agentRoots
	}
	id.setValidation(c, v)
}

// setCertificate names a certificate by its files, or by the name of a secret.
func (id Identity) setCertificate(c *tlsv3.CommonTlsContext, chain, key, secret string) {
	switch {
	case secret != "":
		c.TlsCertificateSdsSecretConfigs = append(c.TlsCertificateSdsSecretConfigs, secretNamed(secret))
	case id.serves(chain, key):
		c.TlsCertificateSdsSecretConfigs = append(c.TlsCertificateSdsSecretConfigs, agentSecret("file-cert:"+chain+"~"+key))
	default:
		c.TlsCertificates = append(c.TlsCertificates,
			&tlsv3.TlsCertificate{CertificateChain: fileSource(chain), PrivateKey: fileSource(key)})
	}
}

// serves reports whether the agent serves these files: ~ separates them in the name of their secret.
func (id Identity) serves(files ...string) bool {
	return id.AgentSDS && !strings.Contains(strings.Join(files, ""), "~")
}

// validation is what a peer's certificate must be. The zero value takes any.
type validation struct {
	root, crl    string // files
	secret       string // over ADS, in the place of root
	agent        string // of the agent's, in the place of root
	names        []string
	spki, hashes []string
}

func (id Identity) setValidation(c *tlsv3.CommonTlsContext, v validation) {
	context := &tlsv3.CertificateValidationContext{VerifyCertificateSpki: v.spki, VerifyCertificateHash: v.hashes}
	// The distribution's roots are always there, and too many to be sent by the agent.
	if v.root != "" && v.root != systemRoots && id.serves(v.root) {
		v.root, v.agent = "", "file-root:"+v.root
	}
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
	var roots *tlsv3.SdsSecretConfig
	switch {
	case v.secret != "":
		roots = secretNamed(v.secret)
	case v.agent != "":
		roots = agentSecret(v.agent)
	}
	switch {
	case roots != nil:
		c.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext: context, ValidationContextSdsSecretConfig: roots,
			},
		}
	case !proto.Equal(context, &tlsv3.CertificateValidationContext{}):
		c.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: context}
	}
}

// secretTimeout is how long Envoy waits for a secret before it goes on without: until then it holds up all clusters of
// the same response, and the responses after it.
const secretTimeout = time.Second

// secretNamed is fetched over ADS as well.
func secretNamed(name string) *tlsv3.SdsSecretConfig {
	source := overADS()
	source.InitialFetchTimeout = durationpb.New(secretTimeout)
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: source}
}

// agentSecret is fetched from the proxy's agent.
func agentSecret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3, SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: agentCluster},
			}}},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3, InitialFetchTimeout: durationpb.New(secretTimeout),
	}}
}

func fileSource(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
