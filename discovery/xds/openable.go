package xds

import (
	"net/netip"
	"slices"
	"strconv"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// openable removes the listeners that a proxy cannot open, since Envoy would reject each of them in every update: those
// at a port below 1024 of an unprivileged proxy, and those at a port that the proxy uses itself. The model's notes
// report both.
func openable(listeners []*listenerv3.Listener, unprivileged bool, own model.OwnPorts) []*listenerv3.Listener {
	return slices.DeleteFunc(listeners, func(l *listenerv3.Listener) bool {
		at := l.GetAddress().GetSocketAddress()
		port := at.GetPortValue()
		if l.BindToPort == nil || l.BindToPort.Value {
			return port > 0 && unprivileged && port < model.UnprivilegedFrom || own.Taken(port) != ""
		}
		ip, err := netip.ParseAddr(at.GetAddress())
		return err == nil && ip.IsUnspecified() && own.Listener(port) != ""
	})
}

// ownPorts returns the ports of the proxy's bootstrap and of its agent, by Istio's metadata keys. Istio's agent always
// sends them.
func (p Proxy) ownPorts() model.OwnPorts {
	config := p.config()
	own := model.OwnPorts{
		Prometheus: portIn(p.Metadata.Extra["ENVOY_PROMETHEUS_PORT"]), Readiness: portIn(p.Metadata.Extra["ENVOY_STATUS_PORT"]),
		Status: portIn(config["statusPort"]), Admin: portIn(config["proxyAdminPort"]),
	}
	if p.text("DNS_CAPTURE") == "true" {
		own.DNS = dnsPort
	}
	return own
}

// portIn reads a port from metadata. A number may be a string; any other value gives 0.
func portIn(value any) uint32 {
	switch v := value.(type) {
	case float64:
		if v == float64(uint16(v)) {
			return uint32(v)
		}
	case string:
		if n, err := strconv.ParseUint(v, 10, 16); err == nil {
			return uint32(n)
		}
	}
	return 0
}
