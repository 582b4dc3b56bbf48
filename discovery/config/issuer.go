package config

import (
	"net/netip"
	"regexp"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
