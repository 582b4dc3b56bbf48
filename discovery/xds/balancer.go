package xds

//lint:file-ignore SA1019 what Istio deprecates is read all the same: files still have it

import (
	"cmp"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

const (
	ringSize     = 1024  // Istio's default
	largestRing  = 65536 // places, of 82 bytes or so: uneven weights of endpoints would make a ring of millions
	maglevSize   = 65537
	largestTable = 5000011 // Envoy's limit
)

// applyBalancer sets the load balancing of a cluster: least requests, unless the policy sets another one.
func (p policy) applyBalancer(c *clusterv3.Cluster, t target) {
	warmup := slowStart(p.balancer)
	switch p.balancer.GetSimple() {
	case networking.LoadBalancerSettings_ROUND_ROBIN:
		c.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
		if warmup != nil {
			c.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: warmup}}
		}
	case networking.LoadBalancerSettings_RANDOM:
		c.LbPolicy = clusterv3.Cluster_RANDOM
	default:
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		if warmup != nil {
			c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: warmup}}
		}
	}
	if hash := p.balancer.GetConsistentHash(); hash != nil {
		applyHash(c, hash)
	}
	if t.localityWeighted() && p.balancer.GetConsistentHash() == nil {
		lbConfig(c).LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}
	}
}

func applyHash(c *clusterv3.Cluster, hash *networking.LoadBalancerSettings_ConsistentHashLB) {
	if maglev := hash.GetMaglev(); maglev != nil {
		c.LbPolicy = clusterv3.Cluster_MAGLEV
		c.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{
			TableSize: wrapperspb.UInt64(min(cmp.Or(maglev.TableSize, maglevSize), largestTable)),
		}}
		return
	}
	size := cmp.Or(hash.GetRingHash().GetMinimumRingSize(), hash.GetMinimumRingSize(), ringSize)
	c.LbPolicy = clusterv3.Cluster_RING_HASH
	c.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{
		MinimumRingSize: wrapperspb.UInt64(min(size, largestRing)), MaximumRingSize: wrapperspb.UInt64(largestRing),
	}}
}

// slowStart returns the warm-up of new endpoints, or nil if there is none.
func slowStart(b *networking.LoadBalancerSettings) *clusterv3.Cluster_SlowStartConfig {
	window := b.GetWarmup().GetDuration()
	if window == nil {
		window = b.GetWarmupDurationSecs()
	}
	if window == nil {
		return nil
	}
	out := &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: window}
	if p := b.GetWarmup().GetMinimumPercent(); p != nil {
		out.MinWeightPercent = &typev3.Percent{Value: p.Value}
	}
	if a := b.GetWarmup().GetAggression(); a != nil {
		out.Aggression = &corev3.RuntimeDouble{DefaultValue: a.Value, RuntimeKey: "warmup.aggression"}
	}
	return out
}

// hashPolicy returns the part of a request that selects its endpoint; empty without consistent hashing.
func hashPolicy(b *networking.LoadBalancerSettings) []*routev3.RouteAction_HashPolicy {
	hash := b.GetConsistentHash()
	switch key := hash.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		return []*routev3.RouteAction_HashPolicy{{PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{
			Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: key.HttpHeaderName},
		}}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		cookie := &routev3.RouteAction_HashPolicy_Cookie{
			Name: key.HttpCookie.Name, Ttl: key.HttpCookie.Ttl,
			Path: key.HttpCookie.Path,
		}
		for _, a := range key.HttpCookie.Attributes {
			cookie.Attributes = append(cookie.Attributes,
				&routev3.RouteAction_HashPolicy_CookieAttribute{Name: a.Name, Value: a.Value})
		}
		return []*routev3.RouteAction_HashPolicy{{PolicySpecifier: &routev3.RouteAction_HashPolicy_Cookie_{Cookie: cookie}}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		return []*routev3.RouteAction_HashPolicy{{PolicySpecifier: &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: key.UseSourceIp},
		}}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		return []*routev3.RouteAction_HashPolicy{{PolicySpecifier: &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: key.HttpQueryParameterName},
		}}}
	}
	return nil
}
