package model

import "strings"

// Protocol is the protocol of a port, named by the prefixes of Kubernetes' and Istio's port names. The empty protocol
// is unknown: Envoy detects it from the first bytes of a connection.
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
	UDP     Protocol = "UDP" // proxies do not forward it
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

// DetectProtocol is Istio's protocol selection: appProtocol, else the port's name up to its first "-". If neither names
// a protocol, the result is TCP for well-known ports on which detection fails or waits, in most cases because the
// server sends first, and Unknown for all others.
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

// IsHTTP reports whether HTTP routes can match requests of the protocol.
func (p Protocol) IsHTTP() bool { return p == HTTP || p == GRPCWeb || p.IsHTTP2() }

// IsHTTP2 reports whether Envoy uses HTTP/2 to an upstream of the protocol.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsTLS reports whether connections start with a TLS handshake that names the server.
func (p Protocol) IsTLS() bool { return p == HTTPS || p == TLS }
