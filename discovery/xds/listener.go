package xds

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	routerFilter    = "envoy.filters.http.router"
	hcmFilter       = "envoy.filters.network.http_connection_manager"
	tcpProxyFilter  = "envoy.filters.network.tcp_proxy"
	httpProxyRoute  = "http_proxy"
	httpProxyListen = "127.0.0.1"
)

// httpProxyListener takes outbound HTTP from programs that name the proxy, as http_proxy does.
func httpProxyListener(port int) *listenerv3.Listener {
	manager := newHCM("outbound_" + listenerName(httpProxyListen, uint32(port)))
	manager.HttpProtocolOptions = &corev3.Http1ProtocolOptions{AllowAbsoluteUrl: wrapperspb.Bool(true)}
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{
		Rds: &hcmv3.Rds{ConfigSource: overADS(), RouteConfigName: httpProxyRoute},
	}
	return newListener(httpProxyListen, uint32(port), corev3.TrafficDirection_OUTBOUND, hcmFilter, manager)
}

// listener leads to the workload. Its routes are inline: they change with the listener only.
func (p inboundPort) listener() *listenerv3.Listener {
	ip, port := p.bind.Addr().String(), uint32(p.bind.Port())
	prefix := "inbound_" + listenerName(ip, port)
	if !p.protocol.IsHTTP() {
		return newListener(ip, port, corev3.TrafficDirection_INBOUND, tcpProxyFilter, &tcpproxyv3.TcpProxy{
			StatPrefix:       prefix,
			ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: p.name()},
		})
	}
	manager := newHCM(prefix)
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
		Name: p.name(),
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    fmt.Sprintf("inbound|http|%d", port),
			Domains: []string{"*"},
			Routes:  []*routev3.Route{toCluster("default", p.name())},
		}},
	}}
	return newListener(ip, port, corev3.TrafficDirection_INBOUND, hcmFilter, manager)
}

// newHCM returns what both directions have in common. Paths are normalized as in Istio, so that routes match what
// the workload will read; upgrades to WebSocket pass.
func newHCM(statPrefix string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix:       statPrefix,
		NormalizePath:    wrapperspb.Bool(true),
		UseRemoteAddress: wrapperspb.Bool(false),
		UpgradeConfigs:   []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       routerFilter,
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{})},
		}},
	}
}

func newListener(ip string, port uint32, direction corev3.TrafficDirection, filter string, config proto.Message) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:             listenerName(ip, port),
		Address:          socket(ip, port),
		TrafficDirection: direction,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       filter,
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(config)},
		}}}},
	}
}

func listenerName(ip string, port uint32) string { return fmt.Sprintf("%s_%d", ip, port) }
