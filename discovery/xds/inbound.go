package xds

import (
	"net/netip"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// inboundPort is one listener in front of the workload, and where the workload itself listens.
type inboundPort struct {
	bind     netip.AddrPort
	protocol model.Protocol
	target   *corev3.Address
}

func (p inboundPort) name() string { return inboundName(uint32(p.bind.Port())) }

func (p inboundPort) cluster() *clusterv3.Cluster {
	c := newCluster(p.name(), p.protocol)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	c.LoadAssignment = loadAssignment(p.name(), []*endpointv3.LbEndpoint{lbEndpoint(p.target, 0)})
	return c
}

// inboundPorts returns what the workload's Sidecar declares, else one for each service that has an endpoint at the
// proxy's address. A port number names the cluster, so each occurs once; the first wins.
func inboundPorts(m *model.Mesh, v Inbound) []inboundPort {
	declared := fromServices(m, v)
	if s := m.Sidecar(v.Namespace, v.Labels()); s != nil && len(s.Spec.Ingress) > 0 {
		declared = fromIngress(s.Spec.Ingress, v)
	}
	var out []inboundPort
	seen := map[uint16]bool{}
	for _, p := range declared {
		if !seen[p.bind.Port()] && !p.loops() {
			seen[p.bind.Port()] = true
			out = append(out, p)
		}
	}
	return out
}

// loops reports whether the listener would forward to itself. One on 0.0.0.0 also takes what is sent to loopback.
func (p inboundPort) loops() bool {
	s := p.target.GetSocketAddress()
	if s.GetPortValue() != uint32(p.bind.Port()) {
		return false
	}
	return p.bind.Addr().IsUnspecified() || s.GetAddress() == p.bind.Addr().String()
}

func fromIngress(ingress []*networking.IstioIngressListener, v Inbound) []inboundPort {
	var out []inboundPort
	for _, entry := range ingress {
		bind, ok := addrPort(entry.GetBind(), v.IP, entry.GetPort().GetNumber())
		target, found := workloadAddress(entry.GetDefaultEndpoint(), v.IP, bind)
		if !ok || !found {
			continue
		}
		protocol, known := model.ParseProtocol(entry.GetPort().GetProtocol())
		if !known {
			protocol = model.TCP // HTTPS, TLS, MONGO: bytes all the same
		}
		out = append(out, inboundPort{bind, protocol, target})
	}
	return out
}

func fromServices(m *model.Mesh, v Inbound) []inboundPort {
	var out []inboundPort
	for _, s := range m.ServicesAt(v.addresses()...) {
		for _, e := range s.Endpoints {
			if !v.Owns(e.Address) {
				continue
			}
			for _, port := range s.Ports {
				if bind, ok := addrPort(e.Address, "", e.PortOn(port)); ok {
					out = append(out, inboundPort{bind, port.Protocol, loopback(bind)})
				}
			}
		}
	}
	return out
}

// workloadAddress reads a defaultEndpoint in Istio's forms: 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT and [::]:PORT
// for the proxy's own address, unix:///path; empty for the same port on loopback.
func workloadAddress(text, own string, bind netip.AddrPort) (*corev3.Address, bool) {
	if text == "" {
		return loopback(bind), true
	}
	if path, ok := strings.CutPrefix(text, "unix://"); ok {
		return pipe(path), path != ""
	}
	target, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil, false
	}
	if target.Addr().IsUnspecified() {
		return socket(own, uint32(target.Port())), true
	}
	return socket(target.Addr().String(), uint32(target.Port())), true
}

func loopback(bind netip.AddrPort) *corev3.Address {
	if bind.Addr().Is6() {
		return socket(netip.IPv6Loopback().String(), uint32(bind.Port()))
	}
	return socket("127.0.0.1", uint32(bind.Port()))
}

// addrPort parses address, or fallback where it is empty.
func addrPort(address, fallback string, port uint32) (netip.AddrPort, bool) {
	if address == "" {
		address = fallback
	}
	ip, err := netip.ParseAddr(address)
	return netip.AddrPortFrom(ip, uint16(port)), err == nil && port > 0 && port <= 65535
}
