package model

import (
	"strings"
	"time"
)

// Service is one host that the mesh can call, as a registry knows it.
type Service struct {
	Host       string // lower case, fully qualified; "*.example.com" for a wildcard
	Namespace  string // where it was declared
	Created    time.Time
	Resolution Resolution
	Ports      []Port
	Endpoints  []Endpoint
}

// Port is one port of a service.
type Port struct {
	Name     string // unique within the service
	Number   uint32 // as clients dial it
	Protocol Protocol
}

// Endpoint is one address that serves a service.
type Endpoint struct {
	Address string            // an IP address, or a DNS name where the service's resolution is DNS
	Ports   map[string]uint32 // port name → the port it listens on; a name that is missing listens on Port.Number
	Labels  map[string]string // subsets select by them
	Weight  uint32            // relative to the others; 0 means 1
}

// PortOn returns the number that the endpoint serves p on.
func (e Endpoint) PortOn(p Port) uint32 {
	if n, ok := e.Ports[p.Name]; ok {
		return n
	}
	return p.Number
}

// Resolution is how a service's endpoints are found: by the control plane, or by Envoy.
type Resolution string

const (
	ResolutionStatic Resolution = "STATIC" // the endpoints are addresses, served by EDS
	ResolutionDNS    Resolution = "DNS"    // Envoy resolves each endpoint's name
)

// Protocol is what a port speaks, by the prefixes of Kubernetes' and Istio's port names.
type Protocol string

const (
	HTTP  Protocol = "HTTP"
	HTTP2 Protocol = "HTTP2"
	GRPC  Protocol = "GRPC"
	TCP   Protocol = "TCP"
)

// ParseProtocol reads a protocol's name in any case: "http", "HTTP2", "grpc", "tcp".
func ParseProtocol(s string) (Protocol, bool) {
	switch p := Protocol(strings.ToUpper(s)); p {
	case HTTP, HTTP2, GRPC, TCP:
		return p, true
	}
	return "", false
}

// IsHTTP reports whether routes can match the protocol's requests.
func (p Protocol) IsHTTP() bool { return p == HTTP || p.IsHTTP2() }

// IsHTTP2 reports whether an upstream of the protocol is spoken to in HTTP/2.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC }
