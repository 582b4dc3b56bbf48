package binding

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"strings"
)

// Protocols that agents and commands offer by ALPN, next to the standard one, which the server selects.
const (
	HTTP1 = "pilotlight-http/1.1" // for requests
	HTTP2 = "pilotlight-h2"       // for streams
)

// Agents reports whether an agent, or a command, opened a connection on which these protocols are offered.
func Agents(offered []string) bool {
	return slices.Contains(offered, HTTP1) || slices.Contains(offered, HTTP2)
}

// Mesh returns the first protocol by which a cluster of the mesh opened the connection, "" for none.
func Mesh(offered []string) string {
	for _, protocol := range offered {
		if strings.HasPrefix(protocol, "istio") {
			return protocol
		}
	}
	return ""
}

// Extension marks a certificate that counts only on connections of agents.
func Extension() pkix.Extension {
	return pkix.Extension{Id: mark(), Value: asn1.NullBytes}
}

// Marked reports whether the certificate has the extension.
func Marked(c *x509.Certificate) bool {
	return slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(mark()) })
}

// mark is in the arc of UUIDs, for which nobody registers names. Its number is below 2³¹, which all parsers take.
func mark() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 25, 1_489_063_127} }
