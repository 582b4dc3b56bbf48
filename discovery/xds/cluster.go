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
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
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

// target is what one cluster is made of.
type target struct {
	service *model.Service
	port    model.Port
	subset  *networking.Subset // nil for the whole service
	policy  policy
	view    Outbound
	mesh    model.Settings
	entered bool // through the gateway of a network, by what others sent there: it leads into that network only
}

func (t target) name() string { return outboundName(t.port.Number, t.subset.GetName(), t.service.Host) }

// clusterInputs is all that the clusters of a service are made of.
type clusterInputs struct {
	service *model.Service
	rule    *networking.DestinationRule
	view    *Outbound // one value for all services, which are many
	mesh    model.Settings
}

func (in clusterInputs) Same(other clusterInputs) bool {
	return in.service == other.service && *in.view == *other.view && in.mesh == other.mesh &&
		model.SamePolicy(in.rule, other.rule)
}

// clusters returns those of every port, for the whole service and for each subset, and the endpoints of those that ask
// for them.
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
				view: v, mesh: mesh,
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

// cluster returns the cluster, and its endpoints where it asks for them.
func (t target) cluster() (*clusterv3.Cluster, *endpointv3.ClusterLoadAssignment) {
	c := newCluster(t.name())
	t.policy.apply(c, t)
	if t.service.Checked && c.CommonLbConfig.GetHealthyPanicThreshold() == nil {
		// Envoy's default would send requests to every endpoint as soon as half of them are not healthy.
		lbConfig(c).HealthyPanicThreshold = &typev3.Percent{Value: 1}
	}
	endpoints := t.assignment()
	switch {
	case t.originalDestination():
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
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
		// Else Envoy answers for none of its clusters until this name is resolved, and does not start without.
		c.WaitForWarmOnInit = wrapperspb.Bool(false)
	}
	c.LoadAssignment = endpoints
	return c, nil
}

// originalDestination reports whether Envoy connects to the address that the client dialled. At a gateway clients dial
// the gateway, so there it never does.
func (t target) originalDestination() bool {
	return !t.view.Gateway && (t.service.Resolution == model.ResolutionNone ||
		t.policy.balancer.GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH)
}

func singleEndpoint(a *endpointv3.ClusterLoadAssignment) bool {
	return len(a.Endpoints) == 1 && len(a.Endpoints[0].LbEndpoints) == 1
}

// newCluster returns what all clusters have in common. Envoy's own circuit breakers, at 1024 requests, would be a
// limit that nobody asked for.
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

// resolvedByEnvoy is what STRICT_DNS, and LOGICAL_DNS for one, were called before Envoy deprecated the cluster's own
// DNS fields: every address of every name is an endpoint, or all addresses of the only name are one.
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

// overADS waits without a limit: discovery answers every name, and a listener without its routes would answer 404.
func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(0),
	}
}

// blackHole leads nowhere.
func blackHole() *clusterv3.Cluster {
	c := newCluster(blackHoleCluster)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	return c
}

// passthrough leads where the client dialled. Behind an explicit proxy nobody knows what that was but the request's
// host, so there Envoy resolves that.
func passthrough(v Outbound) *clusterv3.Cluster {
	c := newCluster(passthroughCluster)
	if v.explicit() {
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name: "envoy.clusters.dynamic_forward_proxy",
			TypedConfig: pack(&forwardv3.ClusterConfig{
				ClusterImplementationSpecifier: &forwardv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: dnsCache(v.Family)},
			}),
		}}
		return c
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	setHTTPOptions(c, httpOptions{client: true})
	return c
}

// explicit reports whether programs name the proxy, and nothing is intercepted.
func (v Outbound) explicit() bool { return v.HTTPProxyPort != 0 && v.none() }

// dnsCache is shared by the cluster and the filter that fills it.
func dnsCache(f Family) *cachev3.DnsCacheConfig {
	_, lookup := f.lookup()
	return &cachev3.DnsCacheConfig{Name: "passthrough", DnsLookupFamily: lookup}
}

// inboundPassthrough leads to the workload's ports that no service names.
func inboundPassthrough(f Family) *clusterv3.Cluster {
	c := newCluster(inboundPassthroughCluster)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	c.UpstreamBindConfig = f.source()
	setHTTPOptions(c, httpOptions{client: true})
	return c
}

func isUnix(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix://") }
