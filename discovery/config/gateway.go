package config

import (
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func gateway(f field, g *networking.Gateway) {
	f.at("selector").labels(g.Selector)
	f.at("servers").required(len(g.Servers))
	names := unique{}
	for i, s := range g.Servers {
		at := f.at("servers").item(i)
		server(at, s)
		if name := s.GetPort().GetName(); name != "" {
			names.add(at.at("port").at("name"), name)
		}
	}
}

func server(f field, s *networking.Server) {
	if s.GetPort() == nil {
		f.at("port").errorf("is missing")
		return
	}
	path, unix := strings.CutPrefix(s.Bind, "unix://")
	switch {
	case unix:
		ownSocket(f.at("bind"), path)
		if s.Port.Number != 0 {
			f.at("port").at("number").warnf("is %d, and is not used at a Unix socket", s.Port.Number)
		}
	case s.Bind != "":
		f.at("bind").ip(s.Bind)
		fallthrough
	default:
		f.at("port").at("number").port(s.Port.Number)
	}
	if f.at("port").at("protocol").required(len(s.Port.Protocol)) {
		f.at("port").at("protocol").protocol(s.Port.Protocol)
	}
	if f.at("port").at("name").required(len(s.Port.Name)) {
		f.at("port").at("name").label(s.Port.Name)
	}
	f.at("hosts").required(len(s.Hosts))
	for i, host := range s.Hosts {
		serverHost(f.at("hosts").item(i), host)
	}
	serverProtocol(f, s)
	issued(f, s)
}

func serverHost(f field, host string) {
	if namespace, rest, found := strings.Cut(host, "/"); found {
		if namespace != "*" && namespace != "." {
			f.label(namespace)
		}
		host = rest
	}
	if _, err := netip.ParseAddr(host); host != "*" && err != nil {
		f.host(host, true)
		f.wholeWildcard(host, Error)
	}
}

// serverProtocol requires TLS settings where the protocol is encrypted, and only there.
func serverProtocol(f field, s *networking.Server) {
	protocol, _ := model.ParseProtocol(s.Port.Protocol)
	switch {
	case protocol == model.UDP:
		f.at("port").at("protocol").errorf("is UDP, which gateways do not take")
	case protocol.IsTLS():
		if s.Tls == nil {
			f.at("tls").errorf("is missing under protocol %s", s.Port.Protocol)
			return
		}
		if s.Tls.HttpsRedirect {
			f.at("tls").at("httpsRedirect").warnf("is not used under protocol %s: want it at a server of protocol HTTP", s.Port.Protocol)
		}
		serverTLS(f.at("tls"), s.Tls)
	case s.Tls != nil && protocol.IsHTTP():
		if s.Tls.Mode != networking.ServerTLSSettings_PASSTHROUGH {
			f.at("tls").errorf("has mode %s under protocol %s, whose connections are plain text: want HTTPS", s.Tls.Mode, s.Port.Protocol)
		}
	case s.Tls != nil:
		f.at("tls").errorf("is given under protocol %s, want TLS or HTTPS", s.Port.Protocol)
	}
}

func serverTLS(f field, t *networking.ServerTLSSettings) {
	for name, path := range inOrder(map[string]string{
		"serverCertificate": t.ServerCertificate, "privateKey": t.PrivateKey, "caCertificates": t.CaCertificates,
		"caCrl": t.CaCrl,
	}) {
		f.at(name).filePath(path)
	}
	if !isIssuer(t.CredentialName) {
		f.at("credentialName").credential(t.CredentialName)
	}
	f.at("caCertCredentialName").credential(t.CaCertCredentialName)
	for i, name := range t.CredentialNames {
		f.at("credentialNames").item(i).credential(name)
	}
	named := t.CredentialName != "" || len(t.CredentialNames) > 0
	files := t.ServerCertificate != "" || t.PrivateKey != "" || len(t.TlsCertificates) > 0
	pair := t.ServerCertificate != "" && t.PrivateKey != ""
	if t.CredentialName != "" && len(t.CredentialNames) > 0 {
		f.at("credentialNames").errorf("are given beside credentialName, want one of them")
	}
	switch t.Mode {
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		if named || files || t.CaCertificates != "" || t.CaCrl != "" {
			f.warnf("names a certificate under %s, which does not use it", t.Mode)
		}
		return
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		if named || files || t.CaCertificates != "" {
			f.errorf("names a certificate under %s, which has no use for it", t.Mode)
		}
		return
	}
	switch {
	case named && (pair || len(t.TlsCertificates) > 0):
		f.errorf("names a certificate both by a credential and by files, want one of them")
	case pair && len(t.TlsCertificates) > 0:
		f.at("tlsCertificates").errorf("are given beside serverCertificate and privateKey, want one of them")
	case named && files:
		f.warnf("names a file beside a credential, which is used in its place")
	case !named && len(t.TlsCertificates) == 0:
		f.at("serverCertificate").required(len(t.ServerCertificate))
		f.at("privateKey").required(len(t.PrivateKey))
	}
	for i, c := range t.TlsCertificates {
		f.at("tlsCertificates").item(i).at("serverCertificate").required(len(c.GetServerCertificate()))
		f.at("tlsCertificates").item(i).at("privateKey").required(len(c.GetPrivateKey()))
	}
	if n := len(t.TlsCertificates) + len(t.CredentialNames); n > 2 {
		f.warnf("names %d certificates; Envoy takes the first of each kind of key", n)
	}
	mutual := t.Mode == networking.ServerTLSSettings_MUTUAL || t.Mode == networking.ServerTLSSettings_OPTIONAL_MUTUAL
	if mutual && !named && t.CaCertCredentialName == "" {
		f.at("caCertificates").required(len(t.CaCertificates))
	}
	if t.MaxProtocolVersion != 0 && t.MinProtocolVersion > t.MaxProtocolVersion {
		f.at("minProtocolVersion").errorf("is %s, which is above maxProtocolVersion %s", t.MinProtocolVersion,
			t.MaxProtocolVersion)
	}
	fingerprints(f, t)
}

// ingressCredential begins the names of certificates of Ingresses (see package ingress).
const ingressCredential = "kubernetes-ingress:"

func isIngressCredential(name string) bool { return strings.HasPrefix(name, ingressCredential) }

// externalCredential is the prefix of names that Istio's proxies request from a server of secrets beside them.
const externalCredential = "sds://"

// credential refuses the name of an Ingress' certificate, which may be in any namespace, and names one that no secret can
// have.
func (f field) credential(name string) {
	if strings.HasPrefix(name, externalCredential) {
		f.warnf("is %q, for a server of secrets beside the proxy, of which discovery knows nothing: the secret never comes, and connections are "+
			"closed; want the name of a secret, or certificates in files", name)
	}
	if model.Issuer(name) != "" || name == "acme://" {
		f.errorf("is %q, which names an issuer of certificates: want that in credentialName of a Gateway's server alone", name)
	}
	if model.IsLent(name) {
		f.errorf("is %q, want the name of a secret of the proxies' namespace", name)
	}
	if isIngressCredential(name) {
		f.errorf("is %q, which is for Ingress objects alone: want the name of a secret of the proxies' namespace", name)
	}
}

func fingerprints(f field, t *networking.ServerTLSSettings) {
	for i, s := range t.VerifyCertificateSpki {
		if raw, err := base64.StdEncoding.DecodeString(s); err != nil || len(raw) != 32 {
			f.at("verifyCertificateSpki").item(i).errorf("is %q, want the base64 of a SHA-256", s)
		}
	}
	for i, s := range t.VerifyCertificateHash {
		if raw, err := hex.DecodeString(strings.ReplaceAll(s, ":", "")); err != nil || len(raw) != 32 {
			f.at("verifyCertificateHash").item(i).errorf("is %q, want the hexadecimal of a SHA-256", s)
		}
	}
	f.ciphers(t.CipherSuites)
	for i, s := range t.SubjectAltNames {
		f.at("subjectAltNames").item(i).required(len(s))
	}
}

// ciphers warns of cipher suites that are not served.
func (f field) ciphers(list []string) {
	known, seen := model.Ciphers(), map[string]bool{}
	for i, s := range list {
		at := f.at("cipherSuites").item(i)
		switch {
		case strings.HasPrefix(s, "-"):
			at.warnf("is %q, ignored: want the suites that are allowed, and no others are", s)
		case !slices.Contains(known, s):
			at.warnf("is %q, ignored%s", s, suggest(s, known))
		case seen[s]:
			at.warnf("is %q, which is there already, ignored", s)
		}
		seen[s] = true
	}
}

// Credentials returns the names of the secrets that a Gateway serves, sorted; none for any other object, and none of
// the secrets of Ingresses, and no issuer.
func Credentials(o *model.Object) (names []string) {
	gateway, is := o.Spec.(*networking.Gateway)
	if !is {
		return nil
	}
	for _, s := range gateway.Servers {
		names = append(names, s.GetTls().GetCredentialName(), s.GetTls().GetCaCertCredentialName())
		names = append(names, s.GetTls().GetCredentialNames()...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" || isIngressCredential(name) || isIssuer(name) })
}

// issuerName is what the name of an issuer looks like.
var issuerName = regexp.MustCompile(`^acme://[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// isIssuer reports whether a credentialName names an issuer of certificates.
func isIssuer(name string) bool { return strings.HasPrefix(name, "acme://") }

// issued judges a server whose certificate comes from an issuer: it proves each host by an answer at port 80.
func issued(f field, s *networking.Server) {
	name := s.GetTls().GetCredentialName()
	if !isIssuer(name) {
		return
	}
	at := f.at("tls").at("credentialName")
	if !issuerName.MatchString(name) {
		at.errorf("is %q, want acme://NAME with the name of an issuer: small letters, digits and -", name)
	}
	for i, host := range s.Hosts {
		host = host[strings.Index(host, "/")+1:]
		if _, err := netip.ParseAddr(host); err == nil || model.IsWildcard(host) {
			f.at("hosts").item(i).errorf("is %q under credentialName %s, whose issuer proves names one by one: want a whole name, or another certificate", host, name)
		}
	}
	switch mode := s.Tls.Mode; mode {
	case networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		if s.Tls.CaCertCredentialName == "" {
			f.at("tls").at("caCertCredentialName").errorf("is missing: mode %s needs the roots of clients, which an issuer does not give", mode)
		}
	}
}
