package model

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// wider adds a note to a server of HTTPS if requests for a host of it are routed within TLS of a server with a wildcard too, of which less is
// asked: a client chooses the server by the name of its handshake. A server that requires a client's certificate has no note, since such
// requests are answered 421.
func (j *judge) wider(meta Meta, g *networking.Gateway) {
	for i, s := range g.Servers {
		protocol, _ := ParseProtocol(s.GetPort().GetProtocol())
		if protocol != HTTPS || !EndsTLS(s.Tls) || RequiresClient(s.Tls) {
			continue
		}
		if host, other, field := j.asksLess(meta, g, s); other != nil {
			j.note(WiderServer, meta, index("spec.servers", i)+".tls."+field, "requests for %s are also routed within TLS that a client begins by another name of %s, "+
				"by the settings of that server: this field is not applied to them; set it on that server too, or mode MUTUAL, by which they are answered 421",
				host, name(*other))
		}
	}
}

// asksLess returns a host of a server that is also routed within TLS of a wider server, the Gateway of that, and the field by which the first
// one asks for more; nil for none.
func (j *judge) asksLess(meta Meta, g *networking.Gateway, s *networking.Server) (host string, by *Meta, field string) {
	for _, host := range ServerHosts(s) {
		for pattern := range patternsOf(host) {
			if pattern == host {
				continue
			}
			for _, other := range j.httpServersOf(pattern, s, true, g) {
				if field := asksMore(s.Tls, other.Tls); field != "" && (other.gateway.Meta.Key() == meta.Key() || j.hasRulesFor(other.gateway, host)) {
					return host, &other.gateway.Meta, field
				}
			}
		}
	}
	return "", nil, ""
}

// asksMore returns the field by which a server asks for more of a handshake than a wider one; "" for none.
func asksMore(own, wider *networking.ServerTLSSettings) string {
	version := func(s *networking.ServerTLSSettings) networking.ServerTLSSettings_TLSProtocol {
		return cmp.Or(s.MinProtocolVersion, networking.ServerTLSSettings_TLSV1_2)
	}
	switch {
	case own.Mode == networking.ServerTLSSettings_OPTIONAL_MUTUAL && wider.Mode == networking.ServerTLSSettings_SIMPLE:
		return "mode"
	case version(own) > version(wider):
		return "minProtocolVersion"
	case len(own.CipherSuites) > 0 && (len(wider.CipherSuites) == 0 ||
		slices.ContainsFunc(wider.CipherSuites, func(suite string) bool { return !slices.Contains(own.CipherSuites, suite) })):
		return "cipherSuites"
	default:
		return ""
	}
}

// EndsTLS reports whether a server ends TLS.
func EndsTLS(s *networking.ServerTLSSettings) bool {
	return s != nil && s.Mode != networking.ServerTLSSettings_PASSTHROUGH && s.Mode != networking.ServerTLSSettings_AUTO_PASSTHROUGH
}

// RequiresClient reports whether a server takes no handshake without a client's certificate.
func RequiresClient(s *networking.ServerTLSSettings) bool {
	return s.GetMode() == networking.ServerTLSSettings_MUTUAL || s.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL
}
