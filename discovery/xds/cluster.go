package xds

import (
	"fmt"
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	connectTimeout     = 10 * time.Second // Istio's default
	httpOptionsKey     = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	dnsClusterTypeName = "envoy.clusters.dns"
)

func outboundName(port uint32, subset, host string) string {
	return fmt.Sprintf("outbound|%d|%s|%s", port, subset, host)
}

func inboundName(port uint32) string { return fmt.Sprintf("inbound|%d||", port) }

// addService adds the clusters of every port, for the whole service and for each subset, with their endpoints.
func (r *Resources) addService(s *model.Service, rule *model.Config[*networking.DestinationRule]) {
	subsets := []*networking.Subset{nil}
	var policy *networking.TrafficPolicy
	if rule != nil {
		subsets = append(subsets, rule.Spec.Subsets...)
		policy = rule.Spec.TrafficPolicy
	}
	for _, port := range s.Ports {
		for _, subset := range subsets {
			name := outboundName(port.Number, subset.GetName(), s.Host)
			c := newCluster(name, port.Protocol)
			c.LbPolicy = lbPolicy(subset.GetTrafficPolicy(), policy)
			endpoints := assignment(name, s, port, subset.GetLabels())
			if s.Resolution == model.ResolutionDNS {
				c.ClusterDiscoveryType = resolvedByEnvoy()
				c.LoadAssignment = endpoints
			} else {
				c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
				c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: overADS(), ServiceName: name}
				r.Endpoints = append(r.Endpoints, endpoints)
			}
			r.Clusters = append(r.Clusters, c)
		}
	}
}

// newCluster returns what all clusters have in common. Envoy's own circuit breakers, at 1024 requests, would be a
// limit that nobody asked for.
func newCluster(name string, protocol model.Protocol) *clusterv3.Cluster {
	unlimited := wrapperspb.UInt32(math.MaxUint32)
	c := &clusterv3.Cluster{
		Name:           name,
		ConnectTimeout: durationpb.New(connectTimeout),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: unlimited, MaxPendingRequests: unlimited, MaxRequests: unlimited, MaxRetries: unlimited,
		}}},
	}
	if protocol.IsHTTP2() {
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: pack(http2Upstream())}
	}
	return c
}

func http2Upstream() *upstreamv3.HttpProtocolOptions {
	return &upstreamv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
				},
			},
		},
	}
}

// resolvedByEnvoy is what STRICT_DNS was called before Envoy deprecated the cluster's own DNS fields: every address
// of every name is an endpoint.
func resolvedByEnvoy() *clusterv3.Cluster_ClusterType {
	return &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: dnsClusterTypeName,
		TypedConfig: pack(&dnsv3.DnsCluster{
			RespectDnsTtl:   true,
			DnsLookupFamily: commondnsv3.DnsLookupFamily_V4_PREFERRED,
		}),
	}}
}

// overADS waits without a limit: discovery answers every name, and a listener without its routes would answer 404.
func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(0),
	}
}

// lbPolicy returns the first balancer that the policies name, most specific first. PASSTHROUGH, which means the
// address that the client dialled, has none behind an explicit proxy and falls back to the default.
func lbPolicy(policies ...*networking.TrafficPolicy) clusterv3.Cluster_LbPolicy {
	for _, policy := range policies {
		switch policy.GetLoadBalancer().GetSimple() {
		case networking.LoadBalancerSettings_ROUND_ROBIN:
			return clusterv3.Cluster_ROUND_ROBIN
		case networking.LoadBalancerSettings_RANDOM:
			return clusterv3.Cluster_RANDOM
		case networking.LoadBalancerSettings_LEAST_REQUEST, networking.LoadBalancerSettings_PASSTHROUGH:
			return clusterv3.Cluster_LEAST_REQUEST
		}
	}
	return clusterv3.Cluster_LEAST_REQUEST
}
