package xds

import (
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// The secrets that a proxy fetches from its agent depend on the metadata about that agent.
func TestIdentity(t *testing.T) {
	type metadata = map[string]any
	istio := func(more metadata) metadata {
		out := metadata{"ISTIO_VERSION": "1.28.0", "PROXY_CONFIG": metadata{"discoveryAddress": "istiod.istio-system.svc:15012"}}
		for key, value := range more {
			out[key] = value
		}
		return out
	}
	for name, test := range map[string]struct {
		metadata          metadata
		own, given, roots string // the proxy's certificate, a certificate in files, and the roots of the mesh
	}{
		"no agent": {
			metadata{}, "/etc/certs/cert-chain.pem", "/a", "/etc/certs/root-cert.pem",
		},
		"a version alone proves no agent":         {metadata{"ISTIO_VERSION": "1.28.0"}, "/etc/certs/cert-chain.pem", "/a", "/etc/certs/root-cert.pem"},
		"a PROXY_CONFIG that somebody wrote":      {metadata{"ISTIO_VERSION": "1.28.0", "PROXY_CONFIG": metadata{"concurrency": 2}}, "/etc/certs/cert-chain.pem", "/a", "/etc/certs/root-cert.pem"},
		"a PROXY_CONFIG that is no object":        {metadata{"ISTIO_VERSION": "1.28.0", "PROXY_CONFIG": "x"}, "/etc/certs/cert-chain.pem", "/a", "/etc/certs/root-cert.pem"},
		"Istio's agent":                           {istio(nil), "sds default", "sds file-cert:/a~/b", "sds ROOTCA"},
		"Istio's agent, which has files":          {istio(metadata{"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k", "TLS_CLIENT_ROOT_CERT": "/r"}), "sds file-cert:/c~/k", "sds file-cert:/a~/b", "sds file-root:/r"},
		"Istio's agent, a certificate, no key":    {istio(metadata{"TLS_CLIENT_CERT_CHAIN": "/c"}), "sds default", "sds file-cert:/a~/b", "sds ROOTCA"},
		"our agent":                               {metadata{"PILOTLIGHT_SDS": "files"}, "sds default", "sds file-cert:/a~/b", "sds ROOTCA"},
		"our agent with a bootstrap of one's own": {istio(metadata{"PILOTLIGHT_SDS": "none"}), "/etc/certs/cert-chain.pem", "/a", "/etc/certs/root-cert.pem"},
		"a later agent of ours":                   {istio(metadata{"PILOTLIGHT_SDS": "other"}), "/etc/certs/cert-chain.pem", "/a", "/etc/certs/root-cert.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.1~app.default~"+clusterDomain, test.metadata))
			if err != nil {
				t.Fatal(err)
			}
			view := ViewOf(proxy)
			if view.Inbound.AgentSDS != view.Outbound.Identity.AgentSDS {
				t.Errorf("inbound differs: %v", view.Inbound.AgentSDS)
			}
			own, given := &tlsv3.CommonTlsContext{}, &tlsv3.CommonTlsContext{}
			view.Outbound.Identity.setOwn(own, validation{})
			view.Outbound.Identity.setCertificate(given, "/a", "/b", "")
			for what, pair := range map[string][2]string{
				"own": {certificateOf(own), test.own}, "given": {certificateOf(given), test.given}, "roots": {rootsOf(own), test.roots},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s: got %q, want %q", what, pair[0], pair[1])
				}
			}
		})
	}
}

// A path that contains the separator of a secret's name cannot be fetched by SDS.
func TestFilesThatNoSecretCanName(t *testing.T) {
	c := &tlsv3.CommonTlsContext{}
	id := Identity{AgentSDS: true}
	id.setCertificate(c, "/a~b", "/c", "")
	id.setValidation(c, validation{root: systemRoots})
	if got := certificateOf(c); got != "/a~b" {
		t.Errorf("a path with ~: got %q", got)
	}
	if got := rootsOf(c); got != systemRoots {
		t.Errorf("the distribution's roots: got %q", got)
	}
}

func certificateOf(c *tlsv3.CommonTlsContext) string {
	for _, s := range c.TlsCertificateSdsSecretConfigs {
		return "sds " + s.Name
	}
	return c.TlsCertificates[0].CertificateChain.GetFilename()
}

func rootsOf(c *tlsv3.CommonTlsContext) string {
	if s := c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(); s != nil {
		return "sds " + s.Name
	}
	return c.GetValidationContext().GetTrustedCa().GetFilename()
}
