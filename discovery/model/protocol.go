package model

import "strings"

// Protocol is what a port speaks, by the prefixes of Kubernetes' and Istio's port names. The empty one is not known:
// Envoy looks at the first bytes.
type Protocol string

const (
	HTTP    Protocol = "HTTP"
	HTTP2   Protocol = "HTTP2"
	GRPC    Protocol = "GRPC"
	GRPCWeb Protocol = "GRPC-WEB"
	HTTPS   Protocol = "HTTPS"
	TLS     Protocol = "TLS"
	TCP     Protocol = "TCP"
	Mongo   Protocol = "MONGO"
	Redis   Protocol = "REDIS"
	MySQL   Protocol = "MYSQL"
	UDP     Protocol = "UDP" // no proxy of ours takes it
	Unknown Protocol = ""
)

// ParseProtocol reads a protocol's name in any case: "http", "HTTP2", "grpc", "tcp".
func ParseProtocol(s string) (Protocol, bool) {
	switch p := Protocol(strings.ToUpper(s)); p {
	case HTTP, HTTP2, GRPC, GRPCWeb, HTTPS, TLS, TCP, Mongo, Redis, MySQL, UDP:
		return p, true
	case "HTTP_PROXY":
		return HTTP, true
	case "GRPC_WEB":
		return GRPCWeb, true
	}
	return Unknown, false
}

// DetectProtocol is Istio's protocol selection: what the application says, else the port's name up to its first "-". A
// port that neither speaks of is unknown, unless its number belongs to a protocol whose server speaks first: there
// would be nothing to look at.
func DetectProtocol(appProtocol, portName string, number uint32) Protocol {
	prefix, _, _ := strings.Cut(portName, "-")
	if strings.HasPrefix(strings.ToLower(portName), "grpc-web") {
		prefix = "grpc-web"
	}
	for _, name := range []string{strings.TrimPrefix(appProtocol, "kubernetes.io/"), prefix} {
		if p, ok := ParseProtocol(name); ok {
			return p
		}
		if name == "h2c" {
			return HTTP2
		}
	}
	switch number {
	case 25, 465, 587, 53, 853, 3306, 27017: // SMTP, DNS, MySQL, MongoDB
		return TCP
	}
	return Unknown
}

// IsHTTP reports whether routes can match the protocol's requests.
func (p Protocol) IsHTTP() bool { return p == HTTP || p == GRPCWeb || p.IsHTTP2() }

// IsHTTP2 reports whether an upstream of the protocol is spoken to in HTTP/2.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsTLS reports whether connections name their server before they are encrypted.
func (p Protocol) IsTLS() bool { return p == HTTPS || p == TLS }
