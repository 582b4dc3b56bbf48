package xds

import (
	"encoding/json"
	"fmt"
	"strconv"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	forwardv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	routerFilter   = "envoy.filters.http.router"
	hcmFilter      = "envoy.filters.network.http_connection_manager"
	tcpProxyFilter = "envoy.filters.network.tcp_proxy"
	// proxyMark is the mark by which iptables rules recognise the proxy's own packets under TPROXY.
	proxyMark = 1337
)

// observed holds what all connection managers and TCP proxies of a mesh have: access logs, tracing, which HTTP they take, and how they
// normalize paths.
type observed struct {
	paths   meshconfig.MeshConfig_ProxyPathNormalization_NormalizationType
	logs    []*accesslogv3.AccessLog // of the mesh
	reports reports
	tracing *hcmv3.HttpConnectionManager_Tracing // nil for none
	http10  bool                                 // HTTP/1.0 is served, and not answered 426
	guarded bool                                 // policies of HTTP count: HTTP/1.0 is HTTP too, where it would be bytes otherwise
	marks   bool                                 // requests are marked as HTTP for the servers' proxies
}

// detected returns the application protocols of connections in which the HTTP inspector detects HTTP.
func (o observed) detected() []string {
	if o.http10 || o.guarded {
		return []string{"http/1.0", "http/1.1", "h2c"}
	}
	return []string{"http/1.1", "h2c"}
}

// newHCM returns the settings that all connection managers have in common. Paths are normalized as in Istio, so that
// routes and policies match the path that the workload reads; upgrades to WebSocket are allowed; idle streams have no timeout.
func (o observed) newHCM(statPrefix string, direction corev3.TrafficDirection) *hcmv3.HttpConnectionManager {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix:        statPrefix,
		UseRemoteAddress:  wrapperspb.Bool(false),
		StreamIdleTimeout: durationpb.New(0),
		AccessLog:         o.httpLogs(),
		Tracing:           o.tracing,
		UpgradeConfigs:    []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
	}
	if o.http10 {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{AcceptHttp_10: true}
	}
	o.normalize(m)
	if direction == corev3.TrafficDirection_INBOUND {
		m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_APPEND_FORWARD
	} else { // not for inbound: these filters are applied where a call starts
		m.HttpFilters = []*hcmv3.HttpFilter{
			httpFilter("envoy.filters.http.grpc_web", &grpcwebv3.GrpcWeb{}),
			httpFilter(faultFilter, &faultv3.HTTPFault{}),
			httpFilter(corsFilter, &corsv3.Cors{}),
		}
		if o.marks {
			m.HttpFilters = append(m.HttpFilters, marksHTTP())
		}
		m.StripTrailingHostDot = true // "reviews.default.svc.cluster.local." is the same host
	}
	m.HttpFilters = append(m.HttpFilters, httpFilter(routerFilter, &routerv3.Router{}))
	return m
}

// normalize sets how a connection manager normalizes paths, as MeshConfig's pathNormalization says. A value that is not known is the
// widest.
func (o observed) normalize(m *hcmv3.HttpConnectionManager) {
	m.NormalizePath = wrapperspb.Bool(o.paths != meshconfig.MeshConfig_ProxyPathNormalization_NONE)
	switch o.paths {
	case meshconfig.MeshConfig_ProxyPathNormalization_NONE, meshconfig.MeshConfig_ProxyPathNormalization_DEFAULT, meshconfig.MeshConfig_ProxyPathNormalization_BASE:
	case meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES:
		m.MergeSlashes = true
	default:
		m.MergeSlashes = true
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	}
}

func httpFilter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(config)}}
}

// forwardByName makes Envoy resolve the hosts of requests that belong to no service.
func forwardByName(m *hcmv3.HttpConnectionManager, f Family) {
	last := len(m.HttpFilters) - 1
	m.HttpFilters = append(m.HttpFilters[:last:last],
		httpFilter("envoy.filters.http.dynamic_forward_proxy", &forwardv3.FilterConfig{
			ImplementationSpecifier: &forwardv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: dnsCache(f)},
		}), m.HttpFilters[last])
}

func fetched(name string) *hcmv3.HttpConnectionManager_Rds {
	return &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: overADS(), RouteConfigName: name}}
}

// inlined returns routes as a part of the listener; they change only with it.
func inlined(name string, routes ...*routev3.Route) *hcmv3.HttpConnectionManager_RouteConfig {
	return &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
		Name:             name,
		ValidateClusters: wrapperspb.Bool(false),
		VirtualHosts:     []*routev3.VirtualHost{{Name: name, Domains: []string{"*"}, Routes: routes}},
	}}
}

func networkFilter(name string, config proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(config)}}
}

func listenerFilter(name string, config proto.Message) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{
		Name:       name,
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: pack(config)},
	}
}

func originalDestination() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{})
}

func originalSource() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: proxyMark})
}

func tlsInspector() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{})
}

func httpInspector() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{})
}

// httpChain returns a filter chain for connections in which the HTTP inspector detected HTTP.
func (o observed) httpChain(filters ...*listenerv3.Filter) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		FilterChainMatch: &listenerv3.FilterChainMatch{TransportProtocol: "raw_buffer", ApplicationProtocols: o.detected()},
		Filters:          filters,
	}
}

func listenerName(ip string, port uint32) string {
	return ip + "_" + strconv.FormatUint(uint64(port), 10)
}

// observe returns the settings of the mesh, with reports to the agent, and tracing with tracer.
func observe(mesh model.Settings, tracer *meshconfig.MeshConfig_ExtensionProvider, r reports) observed {
	return observed{paths: mesh.Config.GetPathNormalization().GetNormalization(), logs: accessLogs(mesh), reports: r, tracing: tracing(mesh, tracer)}
}

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
