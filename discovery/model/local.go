package model

import (
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Local is the kind of an address that leads a proxy to its own machine, or to the link that the machine is on, instead
// of to the workload that the author of the address means. At a gateway that many namespaces share, such an endpoint of
// a tenant would open the gateway's own sockets to clients outside of the mesh.
type Local uint8

const (
	NotLocal   Local = iota
	Loopback         // of 127.0.0.0/8, but 127.0.0.1: services of a mesh on one machine have such addresses
	LocalHost        // 127.0.0.1, ::1, the unspecified addresses, and names of them
	LinkLocal        // 169.254.0.0/16 and fe80::/10: the metadata of a cloud's machine, for example
	UnixSocket       // unix:///path, unix://@name
	AgentPath        // the path of a socket of an agent, of its Envoy, or of a source of identities: nobody may have it
	OwnAddress       // one of the proxy's own: only the proxy's addresses show it
)

func (l Local) String() string {
	return [...]string{
		"an address of the network", "a loopback address", "an address of the proxy's own host", "a link-local address", "a Unix socket",
		"a socket of the proxy's agent", "the proxy's own address",
	}[l]
}

// LocalAddress returns the kind of an endpoint's address in any of its spellings.
func LocalAddress(address string) Local {
	if ip, err := netip.ParseAddr(address); err == nil {
		return localIP(ip)
	}
	return localName(address)
}

func localIP(ip netip.Addr) Local {
	switch ip = ip.Unmap().WithZone(""); {
	case ip.IsUnspecified(), ip == netip.IPv6Loopback(), ip == netip.AddrFrom4([4]byte{127, 0, 0, 1}):
		return LocalHost
	case ip.IsLoopback():
		return Loopback
	case ip.IsLinkLocalUnicast():
		return LinkLocal
	default:
		return NotLocal
	}
}

// localName classifies what is no IP address: a Unix socket, or a name. A name whose last label is a number, such as
// 127.1 or 0x7f000001, is one of the old spellings of IPv4 addresses, which resolvers accept. What other names resolve
// to is not known here: the agent protects itself from those.
func localName(name string) Local {
	if socket, ok := strings.CutPrefix(name, "unix://"); ok {
		if AgentSocket(socket) {
			return AgentPath
		}
		return UnixSocket
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case slices.Contains([]string{"localhost", "localdomain", "localhost4", "localhost6", "localdomain4", "localdomain6", "ip6-localhost", "ip6-loopback"}, last):
		return LocalHost
	case last != "" && isNumber(last):
		return LocalHost
	default:
		return NotLocal
	}
}

func isNumber(label string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// agentDirectories hold the sockets of agents and of sources of identities, or lead to the descriptors of processes.
func agentDirectories() []string {
	return []string{"/etc/istio", "/etc/certs", "/proc", "/dev", "/sys", "/var/run/secrets", "/run/secrets", "/var/run/pilotlight", "/run/pilotlight"}
}

// AgentSocket reports whether a Unix socket may be one of a proxy's agent: by its directory, by the agent's directory
// private-N in any configPath, by its name, or by a path that is not in its shortest form and so may lead anywhere.
// name is without unix://.
func AgentSocket(name string) bool {
	if abstract, ok := strings.CutPrefix(name, "@"); ok {
		return strings.HasPrefix(abstract, "envoy_domain_socket") // of Envoy's hot restart
	}
	if !path.IsAbs(name) || path.Clean(name) != strings.TrimSuffix(name, "/") {
		return true
	}
	for _, dir := range agentDirectories() {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	private := func(part string) bool {
		number, ok := strings.CutPrefix(part, "private-")
		return ok && strings.Trim(number, "0123456789") == ""
	}
	base := path.Base(name)
	return slices.ContainsFunc(strings.Split(name, "/"), private) || slices.Contains([]string{"sds.sock", "agent.sock"}, base) ||
		strings.HasPrefix(base, "admin-rev") || strings.HasPrefix(base, "sds-") || strings.HasPrefix(base, "agent-")
}

// AgentPort reports whether a proxy, or its agent, listens for itself at a port: Envoy's admin, the agent's status,
// metrics and probes, DNS, and the listeners of intercepted connections. own are the ports of the proxy, which may have
// further ones.
func (s Settings) AgentPort(port uint32, own OwnPorts) bool {
	return DefaultAgentPort(port) || s.Reserved(port) != "" || own.Taken(port) != ""
}

// DefaultAgentPort reports whether a port is one that a proxy or its agent has without settings.
func DefaultAgentPort(port uint32) bool {
	switch port {
	case 15000, virtualOutboundPort, 15004, virtualInboundPort, 15020, 15021, 15053, 15090:
		return true
	}
	return false
}

// Unusual returns the ports of o that are not the defaults: nearly all proxies have none.
func (o OwnPorts) Unusual() OwnPorts {
	for _, p := range []*uint32{&o.Prometheus, &o.Readiness, &o.Status, &o.Admin, &o.DNS} {
		if DefaultAgentPort(*p) {
			*p = 0
		}
	}
	return o
}

// Recipient is a proxy, as far as it decides which endpoints it may have.
type Recipient struct {
	Gateway bool
	Same    bool // it is in the namespace of the service
	Own     OwnPorts
}

// Withheld reports whether a proxy does not get an endpoint of a service at an address of this kind, which leads to the
// proxy's own machine. port is the endpoint's. root is whether the service belongs to the root namespace, whose author
// decides for all.
func (s Settings) Withheld(l Local, port uint32, root bool, to Recipient) bool {
	switch {
	case l == AgentPath, (l == Loopback || l == LocalHost || l == OwnAddress) && s.AgentPort(port, to.Own):
		return true
	case l == NotLocal: // it may be the address of another replica, or of any proxy
		return to.Gateway && DefaultAgentPort(port)
	case l == OwnAddress: // requests would circulate
		return to.Gateway && !to.Same
	case !to.Gateway && to.Same:
		return false
	case l == Loopback:
		return !s.LoopbackEndpoints
	case l == LocalHost:
		return to.Gateway || !s.LoopbackEndpoints
	case l == LinkLocal:
		return to.Gateway || !root
	default:
		return true
	}
}
