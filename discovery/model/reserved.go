package model

import "cmp"

// Ports and names that proxies reserve for themselves. Nothing that configuration names may take its place: Envoy would
// refuse the proxy's own listener, and nothing would be intercepted any more.
const (
	VirtualOutbound     = "virtualOutbound" // the listener of all outbound connections that were intercepted
	VirtualInbound      = "virtualInbound"  // and of inbound ones
	virtualOutboundPort = 15001
	virtualInboundPort  = 15006
)

// OutboundPort is where sidecars take intercepted outbound connections.
func (s Settings) OutboundPort() uint32 {
	return uint32(cmp.Or(s.Config.GetProxyListenPort(), virtualOutboundPort))
}

// InboundPort is where sidecars take intercepted inbound connections.
func (s Settings) InboundPort() uint32 {
	return uint32(cmp.Or(s.Config.GetProxyInboundListenPort(), virtualInboundPort))
}

// UnprivilegedFrom is the lowest port that a program may open without a privilege.
const UnprivilegedFrom = 1024

// OwnPorts are what a proxy and the agent beside it listen on for themselves; 0 is none.
type OwnPorts struct {
	Prometheus, Readiness uint32 // listeners of Envoy's bootstrap, at every address
	Status, Admin, DNS    uint32 // sockets of the agent, or of Envoy's admin
}

// Listener returns what the proxy's own listener at a port is for, "" for none. Envoy refuses another at its address,
// also one that binds no port.
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

// Taken returns what is open at a port, "" for nothing: a listener that binds the port would fail, or take its connections.
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

// Reserved returns the listener that sidecars have at a port of every address, "" for none.
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
