package xds

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotlight/pilotlight/node"
)

// agentCluster is the static cluster in a proxy's bootstrap from which its agent serves secrets; the others are the
// names of the proxy's own secrets. All are Istio's names.
const (
	agentCluster     = "sds-grpc"
	agentCertificate = "default"
	agentRoots       = "ROOTCA"
)

// Identity defines the source of a proxy's certificates.
type Identity struct {
	// AgentSDS reports whether the proxy's agent serves by SDS the proxy's own certificate, and certificates in files.
	AgentSDS bool
	// Certified reports whether the proxy has a certificate and the roots of the mesh: without them it neither offers nor
	// requires mutual TLS.
	Certified bool
	// Files of the proxy's own certificate. They may be empty with AgentSDS: the agent then provides the certificate.
	Certificate, Key, Root string
}

// identity reads the Identity from the proxy's metadata.
func (p Proxy) identity() Identity {
	id := Identity{
		AgentSDS:    p.agentSDS(),
		Certificate: p.text("TLS_CLIENT_CERT_CHAIN"), Key: p.text("TLS_CLIENT_KEY"), Root: p.text("TLS_CLIENT_ROOT_CERT"),
	}
	switch said := p.Metadata.AgentSDS; {
	case said != "":
		id.Certified = id.AgentSDS && p.Metadata.Certificate
	case id.AgentSDS: // Istio's agent does not start Envoy without one
		id.Certified = true
	}
	id.Certified = id.Certified || id.Certificate != "" && id.Key != "" && id.Root != ""
	if !id.AgentSDS {
		id.Certificate = cmp.Or(id.Certificate, "/etc/certs/cert-chain.pem")
		id.Key = cmp.Or(id.Key, "/etc/certs/key.pem")
		id.Root = cmp.Or(id.Root, "/etc/certs/root-cert.pem")
	}
	return id
}

// agentSDS reports whether the proxy's bootstrap has the cluster sds-grpc, served by an agent. Our agent sets this in
// its metadata. Istio's agent always has the cluster; it is recognised by its version and by its PROXY_CONFIG, which
// always has a discoveryAddress.
func (p Proxy) agentSDS() bool {
	if said := p.Metadata.AgentSDS; said != "" {
		return said == node.SDSFiles
	}
	address, _ := p.config()["discoveryAddress"].(string)
	return p.text("ISTIO_VERSION") != "" && address != ""
}

// setOwn sets the proxy's own certificate, and validates a peer's certificate with the roots of the mesh.
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

// setCertificate sets a certificate by its files, or by the name of a secret.
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

// serves reports whether the agent serves these files: a file name with ~ is not possible, since ~ separates the files
// in the name of their secret.
func (id Identity) serves(files ...string) bool {
	return id.AgentSDS && !strings.Contains(strings.Join(files, ""), "~")
}

// validation defines the requirements on a peer's certificate. The zero value accepts any.
type validation struct {
	root, crl    string // files
	secret       string // fetched over ADS, instead of root
	agent        string // fetched from the agent, instead of root
	names        []string
	prefixes     []string // of URIs
	spki, hashes []string
}

func (id Identity) setValidation(c *tlsv3.CommonTlsContext, v validation) {
	context := &tlsv3.CertificateValidationContext{VerifyCertificateSpki: v.spki, VerifyCertificateHash: v.hashes}
	// The roots of the distribution are always present, and too many for the agent to send.
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
	for _, prefix := range v.prefixes {
		context.MatchTypedSubjectAltNames = append(context.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
			SanType: tlsv3.SubjectAltNameMatcher_URI,
			Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix}},
		})
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

// secretTimeout is how long Envoy waits for a secret before it continues without it. While Envoy waits, it delays all
// clusters of the same response, and the responses after it.
const secretTimeout = time.Second

// secretNamed returns the configuration of a secret that Envoy fetches over ADS.
func secretNamed(name string) *tlsv3.SdsSecretConfig {
	source := overADS()
	source.InitialFetchTimeout = durationpb.New(secretTimeout)
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: source}
}

// agentSecret returns the configuration of a secret that Envoy fetches from the proxy's agent.
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

// SecretNames returns the names of the secrets that the resources fetch over ADS, sorted: the credentials of Gateways
// that select the proxy, and of DestinationRules that apply to it.
func SecretNames(all ...*Resources) (names []string) {
	for _, r := range all {
		for socket := range r.sockets() {
			for _, s := range secretsOf(socket) {
				if s.GetSdsConfig().GetAds() != nil {
					names = append(names, s.GetName())
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sockets yields all transport sockets; nil for unencrypted connections.
func (r *Resources) sockets() iter.Seq[*corev3.TransportSocket] {
	return func(yield func(*corev3.TransportSocket) bool) {
		for _, c := range r.Clusters {
			if !yield(c.TransportSocket) {
				return
			}
			for _, m := range c.TransportSocketMatches {
				if !yield(m.TransportSocket) {
					return
				}
			}
		}
		for _, l := range r.Listeners {
			if !yield(l.GetDefaultFilterChain().GetTransportSocket()) {
				return
			}
			for _, c := range l.FilterChains {
				if !yield(c.TransportSocket) {
					return
				}
			}
		}
	}
}

func secretsOf(socket *corev3.TransportSocket) []*tlsv3.SdsSecretConfig {
	config := socket.GetTypedConfig()
	if config == nil {
		return nil
	}
	message, err := config.UnmarshalNew()
	if err != nil {
		return nil // a type in which Envoy finds no secrets
	}
	tls, ok := message.(interface {
		GetCommonTlsContext() *tlsv3.CommonTlsContext
	})
	if !ok {
		return nil
	}
	common := tls.GetCommonTlsContext()
	return append(slices.Clone(common.GetTlsCertificateSdsSecretConfigs()),
		common.GetValidationContextSdsSecretConfig(),
		common.GetCombinedValidationContext().GetValidationContextSdsSecretConfig())
}
