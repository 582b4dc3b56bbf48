package xds

import (
	"encoding/json"
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Topology defines which data about its clients a gateway trusts, by the trusted proxies in front of it.
type Topology struct {
	own           bool                                // set by the gateway itself; else that of MeshConfig is used
	hops          uint32                              // trusted proxies that append to x-forwarded-for
	certificates  meshconfig.ForwardClientCertDetails // the handling of x-forwarded-client-cert
	proxyProtocol bool                                // connections start with a PROXY header
}

// parseTopology reads gatewayTopology of a proxy's own ProxyConfig, in its metadata PROXY_CONFIG.
func parseTopology(metadata map[string]any) (Topology, error) {
	config, said := metadata["PROXY_CONFIG"]
	if !said {
		return Topology{}, nil
	}
	fields, ok := config.(map[string]any)
	if !ok {
		return Topology{}, fmt.Errorf("metadata PROXY_CONFIG: is %#v, want an object", config)
	}
	if fields["gatewayTopology"] == nil {
		return Topology{}, nil
	}
	text, err := json.Marshal(fields["gatewayTopology"])
	if err != nil {
		return Topology{}, fmt.Errorf("metadata PROXY_CONFIG.gatewayTopology: %w", err)
	}
	in := &meshconfig.Topology{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, in); err != nil {
		return Topology{}, fmt.Errorf("metadata PROXY_CONFIG.gatewayTopology: %w", err)
	}
	return topologyOf(in, true), nil
}

func topologyOf(in *meshconfig.Topology, own bool) Topology {
	return Topology{own, in.GetNumTrustedProxies(), in.GetForwardClientCertDetails(), in.GetProxyProtocol() != nil}
}

// in returns the topology that applies in a mesh.
func (t Topology) in(mesh model.Settings) Topology {
	if t.own {
		return t
	}
	return topologyOf(mesh.Config.GetDefaultConfig().GetGatewayTopology(), false)
}

// applyTo configures which headers of clients m trusts. By default a gateway uses the address of the connection's peer
// as the client's address, and sets x-forwarded-client-cert itself.
func (t Topology) applyTo(m *hcmv3.HttpConnectionManager) {
	m.UseRemoteAddress = wrapperspb.Bool(true)
	m.XffNumTrustedHops = t.hops
	switch t.certificates {
	case meshconfig.ForwardClientCertDetails_SANITIZE:
		m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE
	case meshconfig.ForwardClientCertDetails_FORWARD_ONLY:
		m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_FORWARD_ONLY
	case meshconfig.ForwardClientCertDetails_ALWAYS_FORWARD_ONLY:
		m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY
	case meshconfig.ForwardClientCertDetails_APPEND_FORWARD:
		m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_APPEND_FORWARD
	default:
		m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE_SET
	}
	switch m.ForwardClientCertDetails {
	case hcmv3.HttpConnectionManager_SANITIZE_SET, hcmv3.HttpConnectionManager_APPEND_FORWARD:
		m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
			Subject: wrapperspb.Bool(true), Cert: true, Uri: true, Dns: true,
		}
	}
}

// filters returns the listener filters that must be the first ones of a gateway's listener.
func (t Topology) filters() []*listenerv3.ListenerFilter {
	if !t.proxyProtocol {
		return nil
	}
	return []*listenerv3.ListenerFilter{listenerFilter("envoy.filters.listener.proxy_protocol", &proxyprotocolv3.ProxyProtocol{})}
}
