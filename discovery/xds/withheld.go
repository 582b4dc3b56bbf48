package xds

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// An endpoint at an address that is local to the proxy that dials it (see model.Local) leads to the proxy's own sockets.
// Proxies of other namespaces do not get it. Nearly no service has one; only for those that do, clusters depend on the
// namespace of the proxy.

// sameIn reports whether the proxy is in the namespace of the service, if an endpoint of the service depends on it.
func (v Outbound) sameIn(m *model.Mesh, s *model.Service) bool {
	return (v.own != "" || m.HasLocal(s)) && s.Namespace == v.Namespace
}

// withheld reports whether the proxy does not get an endpoint for a port. same is whether both are in one namespace.
func (v Outbound) withheld(s *model.Service, e model.Endpoint, p model.Port, same bool, mesh model.Settings) bool {
	local := model.LocalAddress(e.Address)
	if local == model.NotLocal && v.own != "" && v.owns(e.Address) {
		local = model.OwnAddress
	}
	if local == model.NotLocal && !v.Gateway {
		return false
	}
	to := model.Recipient{Gateway: v.Gateway, Same: same, Own: v.Own}
	return mesh.Withheld(local, e.PortOn(p), s.Namespace == mesh.RootNamespace(), to)
}

func (v Outbound) owns(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.Contains(parseAddresses(v.own), ip.Unmap())
}

// claimedIn returns the own addresses that are endpoints which the proxy may not have.
func (v Outbound) claimedIn(m *model.Mesh) string {
	if v.own == "" {
		return ""
	}
	var out []string
	for _, ip := range parseAddresses(v.own) {
		if m.ForeignAt(ip, v.Namespace, v.Gateway, v.Own) {
			out = append(out, ip.String())
		}
	}
	return strings.Join(out, ",")
}
