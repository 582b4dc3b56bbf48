package xds

import (
	"cmp"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// assignment returns the endpoints of a port that labels select, ordered by address. A service without any gives an
// empty one: Envoy must be told, or it waits.
func assignment(cluster string, s *model.Service, port model.Port, labels map[string]string) *endpointv3.ClusterLoadAssignment {
	var chosen []*endpointv3.LbEndpoint
	for _, e := range s.Endpoints {
		if !model.Selects(labels, e.Labels) || s.Resolution == model.ResolutionStatic && !isIP(e.Address) {
			continue
		}
		chosen = append(chosen, lbEndpoint(socket(e.Address, e.PortOn(port)), e.Weight))
	}
	slices.SortStableFunc(chosen, func(a, b *endpointv3.LbEndpoint) int {
		x, y := socketOf(a), socketOf(b)
		return cmp.Or(cmp.Compare(x.GetAddress(), y.GetAddress()), cmp.Compare(x.GetPortValue(), y.GetPortValue()))
	})
	return loadAssignment(cluster, chosen)
}

func loadAssignment(cluster string, endpoints []*endpointv3.LbEndpoint) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: cluster}
	if len(endpoints) > 0 {
		out.Endpoints = []*endpointv3.LocalityLbEndpoints{{LbEndpoints: endpoints}}
	}
	return out
}

func lbEndpoint(address *corev3.Address, weight uint32) *endpointv3.LbEndpoint {
	out := &endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
	}
	if weight > 1 {
		out.LoadBalancingWeight = wrapperspb.UInt32(weight)
	}
	return out
}

func socket(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       address,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

func pipe(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

func socketOf(e *endpointv3.LbEndpoint) *corev3.SocketAddress {
	return e.GetEndpoint().GetAddress().GetSocketAddress()
}

func isIP(address string) bool {
	_, err := netip.ParseAddr(address)
	return err == nil
}
