package xds

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Build returns the whole configuration of the proxies with view v.
func Build(m *model.Mesh, v View) *Resources {
	out, in := BuildOutbound(m, v.Outbound), BuildInbound(m, v.Inbound)
	all := &Resources{
		Clusters:  slices.Concat(out.Clusters, in.Clusters),
		Endpoints: slices.Concat(out.Endpoints, in.Endpoints),
		Listeners: slices.Concat(out.Listeners, in.Listeners),
		Routes:    slices.Concat(out.Routes, in.Routes),
	}
	return all.normalize()
}

// BuildOutbound builds from nothing.
func BuildOutbound(m *model.Mesh, v Outbound) *Resources { return RebuildOutbound(nil, m, v) }

// RebuildOutbound builds without a sibling.
func RebuildOutbound(last *Resources, m *model.Mesh, v Outbound) *Resources {
	return RebuildWithSibling(last, nil, m, v)
}

func socketOf(e *endpointv3.LbEndpoint) *corev3.SocketAddress {
	return e.GetEndpoint().GetAddress().GetSocketAddress()
}
