package model

import "cmp"

// Ports and names that proxies reserve for themselves. No other resource may use them: Envoy would reject the proxy's
// own listener, and traffic would no longer be intercepted.
const (
	VirtualOutbound     = "virtualOutbound" // the listener of all intercepted outbound connections
	VirtualInbound      = "virtualInbound"  // the listener of all intercepted inbound connections
	virtualOutboundPort = 15001
	virtualInboundPort  = 15006
)

// OutboundPort returns the port of the sidecar's listener for intercepted outbound connections.
func (s Settings) OutboundPort() uint32 {
	return uint32(cmp.Or(s.Config.GetProxyListenPort(), virtualOutboundPort))
}

// InboundPort returns the port of the sidecar's listener for intercepted inbound connections.
func (s Settings) InboundPort() uint32 {
	return uint32(cmp.Or(s.Config.GetProxyInboundListenPort(), virtualInboundPort))
}

// UnprivilegedFrom is the lowest port that a process can open without privileges.
const UnprivilegedFrom = 1024

// OwnPorts are the ports on which a proxy and its agent listen for themselves; 0 is none.
type OwnPorts struct {
	Prometheus, Readiness uint32 // listeners of Envoy's bootstrap, at every address
	Status, Admin, DNS    uint32 // sockets of the agent, or of Envoy's admin
}

// Listener returns the purpose of the proxy's own listener at a port, or "" if there is none. Envoy rejects another
// listener at the same address, also one that binds no port.
func (o OwnPorts) Listener(port uint32) string {
	switch port {
	case 0:
		return ""
	case o.Prometheus:
		return "listener for Prometheus"
	case o.Readiness:
		return "listener for probes"
	default:
		return ""
	}
}

// Taken returns the purpose of the socket that is open at a port, or "" if there is none: a listener that binds the
// port would fail, or take its connections.
func (o OwnPorts) Taken(port uint32) string {
	if listener := o.Listener(port); listener != "" || port == 0 {
		return listener
	}
	switch port {
	case o.Status:
		return "status"
	case o.Admin:
		return "admin"
	case o.DNS:
		return "DNS"
	default:
		return ""
	}
}

// Reserved returns the listener that sidecars have at a port of every address, or "" if there is none.
func (s Settings) Reserved(port uint32) string {
	switch port {
	case s.OutboundPort():
		return VirtualOutbound
	case s.InboundPort():
		return VirtualInbound
	default:
		return ""
	}
}
