package xds

import (
	"fmt"
	"math"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	forwardv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	connectTimeout     = 10 * time.Second // Istio's default
	dnsRefresh         = time.Minute
	dnsClusterTypeName = "envoy.clusters.dns"

	passthroughCluster        = "PassthroughCluster"
	blackHoleCluster          = "BlackHoleCluster"
	inboundPassthroughCluster = "InboundPassthroughCluster"
)

func outboundName(port uint32, subset, host string) string {
	return fmt.Sprintf("outbound|%d|%s|%s", port, subset, host)
}

func inboundName(port uint32) string { return fmt.Sprintf("inbound|%d||", port) }

// target holds the inputs of one cluster.
type target struct {
	service *model.Service
	port    model.Port
	subset  *networking.Subset // nil for the whole service
	policy  policy
	view    Outbound
	same    bool // the proxy is in the namespace of the service: set if an endpoint depends on it
	mesh    model.Settings
	peers   *model.Peers     // as in clusterInputs
	strict  bool             // the same
	gone    []model.Endpoint // the same
	entered bool             // for requests from other networks at a gateway: it leads only into the gateway's own network
}

func (t target) name() string { return outboundName(t.port.Number, t.subset.GetName(), t.service.Host) }

// clusterInputs holds all inputs of the clusters of a service.
type clusterInputs struct {
	service *model.Service
	rule    *networking.DestinationRule
	view    *Outbound // one value for all services, since there are many
	mesh    model.Settings
	same    bool // as in target

	// peers are the policies of the service's workloads, if these may refuse mutual TLS and the proxy offers it.
	peers *model.Peers
	// strict: the service has no endpoint, and workloads of its namespace take mutual TLS only.
	strict bool
	// gone are the endpoints that a headless service without any had last.
	gone []model.Endpoint
}

// inputsOf returns the inputs of the clusters of a service for a proxy.
func inputsOf(m *model.Mesh, s *model.Service, rule *networking.DestinationRule, v *Outbound, same bool) clusterInputs {
	in := clusterInputs{service: s, rule: rule, view: v, mesh: m.Settings(), same: same}
	if v.Identity.Certified {
		in.peers = m.Refusing(s.Namespace)
		in.gone = m.Departed(s)
		in.strict = len(s.Endpoints) == 0 && (s.Headless || s.Resolution != model.ResolutionNone) && m.Peers(s.Namespace).Of(nil).Mode(0) == model.PeerStrict
	}
	return in
}

func (in clusterInputs) Same(other clusterInputs) bool {
	return in.service == other.service && (in.view == other.view || *in.view == *other.view) && in.mesh == other.mesh && in.same == other.same && in.peers == other.peers && in.strict == other.strict &&
		len(in.gone) == len(other.gone) && (len(in.gone) == 0 || &in.gone[0] == &other.gone[0]) &&
		model.SamePolicy(in.rule, other.rule)
}

// clusters returns the clusters of every port, for the whole service and for each subset, and the endpoints of those
// that use EDS.
func (in clusterInputs) clusters() *Resources {
	s, rule, v, mesh := in.service, in.rule, *in.view, in.mesh
	r := &Resources{}
	subsets := append([]*networking.Subset{nil}, rule.GetSubsets()...)
	for _, port := range s.Ports {
		if port.Protocol == model.UDP {
			continue
		}
		for _, subset := range subsets {
			t := target{
				service: s, port: port, subset: subset, policy: policyOf(rule, subset, port.Number, mesh),
				view: v, mesh: mesh, same: in.same, peers: in.peers, strict: in.strict, gone: in.gone,
			}
			c, endpoints := t.cluster()
			r.Clusters = append(r.Clusters, c)
			if endpoints != nil {
				r.Endpoints = append(r.Endpoints, endpoints)
			}
		}
	}
	return r
}

// cluster returns the cluster, and its endpoints if it uses EDS.
func (t target) cluster() (*clusterv3.Cluster, *endpointv3.ClusterLoadAssignment) {
	c := newCluster(t.name())
	t.policy.apply(c, t)
	endpoints := t.assignment()
	switch {
	case t.originalDestination():
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
		c.LbPolicy, c.LbConfig = clusterv3.Cluster_CLUSTER_PROVIDED, nil
		c.CommonLbConfig = nil
		return c, nil
	case t.forwardedByName():
		c.ClusterDiscoveryType = forwardedByName(t.view.Family, true)
		c.LbPolicy, c.LbConfig = clusterv3.Cluster_CLUSTER_PROVIDED, nil
		c.CommonLbConfig = nil
		return c, nil
	case !t.service.Resolution.IsDNS():
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: overADS(), ServiceName: c.Name}
		return c, endpoints
	case len(endpoints.Endpoints) == 0: // nothing to resolve
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	default:
		one := t.service.Resolution == model.ResolutionDNSRoundRobin && singleEndpoint(endpoints)
		c.ClusterDiscoveryType = resolvedByEnvoy(one, t.view.Family, t.mesh)
		// Otherwise Envoy does not serve any of its clusters until this name is resolved, and does not start without
		// it.
		c.WaitForWarmOnInit = wrapperspb.Bool(false)
	}
	c.LoadAssignment = endpoints
	return c, nil
}

// originalDestination reports whether Envoy connects to the address that the client used. The clients of a gateway, and of
// a sidecar with interception NONE, connect to the proxy itself: these use the endpoints of the service.
func (t target) originalDestination() bool {
	return !t.view.Gateway && !t.view.none() && (t.service.Resolution == model.ResolutionNone ||
		t.policy.balancer.GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH)
}

// forwardedByName reports whether Envoy resolves the host of each request: programs name it to an HTTP proxy, and the service
// has neither endpoints nor an original destination.
func (t target) forwardedByName() bool {
	return t.view.explicit() && !t.view.Gateway && t.service.Resolution == model.ResolutionNone && !t.service.Headless && len(t.service.Endpoints) == 0
}

func singleEndpoint(a *endpointv3.ClusterLoadAssignment) bool {
	return len(a.Endpoints) == 1 && len(a.Endpoints[0].LbEndpoints) == 1
}

// newCluster returns the settings that all clusters have in common. Without explicit thresholds, Envoy's default
// circuit breakers would set limits, such as 1024 requests, that no policy configured.
func newCluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:           name,
		ConnectTimeout: durationpb.New(connectTimeout),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: unlimited(), MaxPendingRequests: unlimited(), MaxRequests: unlimited(),
			MaxRetries: unlimited(),
		}}},
	}
}

func unlimited() *wrapperspb.UInt32Value { return wrapperspb.UInt32(math.MaxUint32) }

// resolvedByEnvoy returns a cluster of type envoy.clusters.dns. It replaces STRICT_DNS, and LOGICAL_DNS if one is set,
// since Envoy deprecated the DNS fields of the cluster message: every address of every name is an endpoint, or all
// addresses of the only name are one endpoint.
func resolvedByEnvoy(one bool, f Family, mesh model.Settings) *clusterv3.Cluster_ClusterType {
	refresh := mesh.Config.GetDnsRefreshRate()
	if refresh == nil {
		refresh = durationpb.New(dnsRefresh)
	}
	lookup, _ := f.lookup()
	return &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: dnsClusterTypeName,
		TypedConfig: pack(&dnsv3.DnsCluster{
			RespectDnsTtl:                true,
			DnsRefreshRate:               refresh,
			DnsLookupFamily:              lookup,
			AllAddressesInSingleEndpoint: one,
		}),
	}}
}

// overADS returns a config source with no fetch timeout: discovery answers every resource name, and a listener without
// its routes would answer 404.
func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(0),
	}
}

// blackHole returns a cluster without endpoints.
func blackHole() *clusterv3.Cluster {
	c := newCluster(blackHoleCluster)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	return c
}

// passthrough returns the cluster that connects to the original destination of a connection. Behind an explicit proxy
// there is no original destination but the host of the request, so Envoy resolves that host.
func passthrough(v Outbound) *clusterv3.Cluster {
	c := newCluster(passthroughCluster)
	if v.explicit() {
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		c.ClusterDiscoveryType = forwardedByName(v.Family, false)
		return c
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	setHTTPOptions(c, httpOptions{client: true})
	return c
}

// forwardedByName returns a cluster type whose endpoints are the addresses of the hosts of requests. Where a DestinationRule may set the
// name that TLS sends and verifies, Envoy does not insist on the host.
func forwardedByName(f Family, anyName bool) *clusterv3.Cluster_ClusterType {
	return &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: "envoy.clusters.dynamic_forward_proxy",
		TypedConfig: pack(&forwardv3.ClusterConfig{
			ClusterImplementationSpecifier: &forwardv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: dnsCache(f)},
			AllowInsecureClusterOptions:    anyName,
		}),
	}}
}

// explicit reports whether programs use the proxy as an HTTP proxy, and no traffic is intercepted.
func (v Outbound) explicit() bool { return v.HTTPProxyPort != 0 && v.none() }

// dnsCache returns the cache that the cluster and the filter that fills it share.
func dnsCache(f Family) *cachev3.DnsCacheConfig {
	_, lookup := f.lookup()
	return &cachev3.DnsCacheConfig{Name: "passthrough", DnsLookupFamily: lookup}
}

// inboundPassthrough returns the cluster of the workload's ports that belong to no service.
func inboundPassthrough(f Family) *clusterv3.Cluster {
	c := newCluster(inboundPassthroughCluster)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	c.UpstreamBindConfig = f.source()
	setHTTPOptions(c, httpOptions{client: true})
	return c
}

func isUnix(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix://") }

const httpOptionsKey = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// httpOptions defines the HTTP protocol between Envoy and a cluster's endpoints.
type httpOptions struct {
	http2, client bool // HTTP/2, or the protocol of the client; else HTTP/1.1
	pool          *networking.ConnectionPoolSettings_HTTPSettings
	maxDuration   *durationpb.Duration
	autoSNI       bool // the SNI of the handshake is the request's host
	autoSAN       bool // the server's certificate must be valid for the request's host
}

// explicitHTTP2 reports whether Envoy uses HTTP/2 to the endpoints for every protocol of the client.
func (o httpOptions) explicitHTTP2() bool { return o.http2 && !o.client }

func setHTTPOptions(c *clusterv3.Cluster, o httpOptions) {
	out := &upstreamv3.HttpProtocolOptions{CommonHttpProtocolOptions: o.connection()}
	if o.autoSNI {
		out.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{AutoSni: true, AutoSanValidation: o.autoSAN}
	}
	if !o.http2 && !o.client && out.CommonHttpProtocolOptions == nil && !o.autoSNI {
		return // Envoy's default is HTTP/1.1
	}
	http2 := &corev3.Http2ProtocolOptions{}
	if n := o.pool.GetMaxConcurrentStreams(); n > 0 {
		http2.MaxConcurrentStreams = wrapperspb.UInt32(uint32(n))
	}
	if k := o.pool.GetHttp2KeepAlive(); k != nil {
		http2.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: k.Interval, Timeout: k.Timeout}
	}
	switch {
	case o.client:
		out.UpstreamProtocolOptions = &upstreamv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &upstreamv3.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions: &corev3.Http1ProtocolOptions{}, Http2ProtocolOptions: http2,
			},
		}
	case o.http2:
		out.UpstreamProtocolOptions = explicit(&upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: http2},
		})
	default:
		out.UpstreamProtocolOptions = explicit(&upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
				HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
			},
		})
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: pack(out)}
}

func explicit(config *upstreamv3.HttpProtocolOptions_ExplicitHttpConfig) *upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_ {
	return &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: config}
}

// connection returns the options of each connection, or nil for Envoy's defaults.
func (o httpOptions) connection() *corev3.HttpProtocolOptions {
	out := &corev3.HttpProtocolOptions{IdleTimeout: o.pool.GetIdleTimeout(), MaxConnectionDuration: o.maxDuration}
	if n := o.pool.GetMaxRequestsPerConnection(); n > 0 {
		out.MaxRequestsPerConnection = wrapperspb.UInt32(uint32(min(n, math.MaxInt32)))
	}
	if out.IdleTimeout == nil && out.MaxConnectionDuration == nil && out.MaxRequestsPerConnection == nil {
		return nil
	}
	return out
}
