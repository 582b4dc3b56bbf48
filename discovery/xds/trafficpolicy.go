package xds

//lint:file-ignore SA1019 what Istio deprecates is read all the same: files still have it

import (
	"cmp"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// policy is the part of a DestinationRule's traffic policy for one port of one subset.
type policy struct {
	balancer      *networking.LoadBalancerSettings
	pool          *networking.ConnectionPoolSettings
	outlier       *networking.OutlierDetection
	tls           *networking.ClientTLSSettings
	proxyProtocol *networking.TrafficPolicy_ProxyProtocol
	retryBudget   *networking.TrafficPolicy_RetryBudget
}

// policyOf returns the policy for a port. It is the rule's policy for that port, which replaces the rule's general
// policy except for proxyProtocol and retryBudget, or else the general policy. The fields that the subset sets replace
// those of the result; a policy of the subset for the port replaces the result, with proxyProtocol and retryBudget of
// the subset. Without outlier detection or a connection pool, the mesh's default is used.
func policyOf(rule *networking.DestinationRule, subset *networking.Subset, port uint32, mesh model.Settings) policy {
	p := onPort(rule.GetTrafficPolicy(), port)
	if own := subset.GetTrafficPolicy(); own != nil {
		if level := levelOf(own, port); level != nil {
			p = ofLevel(own, level)
		} else {
			p = p.under(own)
		}
	}
	if p.outlier == nil {
		p.outlier = mesh.Config.GetDefaultTrafficPolicy().GetOutlierDetection()
	}
	if p.pool == nil {
		p.pool = mesh.Config.GetDefaultTrafficPolicy().GetConnectionPool()
	}
	return p
}

func onPort(in *networking.TrafficPolicy, port uint32) policy {
	if in == nil {
		return policy{}
	}
	if level := levelOf(in, port); level != nil {
		return ofLevel(in, level)
	}
	return policy{}.under(in)
}

func levelOf(in *networking.TrafficPolicy, port uint32) *networking.TrafficPolicy_PortTrafficPolicy {
	i := slices.IndexFunc(in.PortLevelSettings, func(l *networking.TrafficPolicy_PortTrafficPolicy) bool {
		return l.GetPort().GetNumber() == port
	})
	if i < 0 {
		return nil
	}
	return in.PortLevelSettings[i]
}

func ofLevel(in *networking.TrafficPolicy, level *networking.TrafficPolicy_PortTrafficPolicy) policy {
	return policy{
		level.LoadBalancer, level.ConnectionPool, level.OutlierDetection, level.Tls, in.ProxyProtocol,
		in.RetryBudget,
	}
}

// under returns p with the fields that over sets.
func (p policy) under(over *networking.TrafficPolicy) policy {
	if over.LoadBalancer != nil {
		p.balancer = over.LoadBalancer
	}
	if over.ConnectionPool != nil {
		p.pool = over.ConnectionPool
	}
	if over.OutlierDetection != nil {
		p.outlier = over.OutlierDetection
	}
	if over.Tls != nil {
		p.tls = over.Tls
	}
	if over.ProxyProtocol != nil {
		p.proxyProtocol = over.ProxyProtocol
	}
	if over.RetryBudget != nil {
		p.retryBudget = over.RetryBudget
	}
	return p
}

func (p policy) apply(c *clusterv3.Cluster, t target) {
	p.applyPool(c, t)
	p.applyBalancer(c, t)
	p.applyOutlier(c)
	lbConfig(c).HealthyPanicThreshold = &typev3.Percent{Value: p.panicsBelow()}
	p.applyTLS(c, t)
	p.applyProxyProtocol(c)
	if b := p.retryBudget; b != nil {
		budget := &clusterv3.CircuitBreakers_Thresholds_RetryBudget{BudgetInterval: b.BudgetInterval}
		if b.Percent != nil {
			budget.BudgetPercent = &typev3.Percent{Value: b.Percent.Value}
		}
		if b.MinRetryConcurrency != 0 {
			budget.MinRetryConcurrency = wrapperspb.UInt32(b.MinRetryConcurrency)
		}
		c.CircuitBreakers.Thresholds[0].RetryBudget = budget
	}
}

// applyPool sets limits and timeouts. Only configured limits are set.
func (p policy) applyPool(c *clusterv3.Cluster, t target) {
	tcp, http := p.pool.GetTcp(), p.pool.GetHttp()
	limits := c.CircuitBreakers.Thresholds[0]
	limit := func(to **wrapperspb.UInt32Value, n int32) {
		if n > 0 {
			*to = wrapperspb.UInt32(uint32(n))
		}
	}
	limit(&limits.MaxConnections, tcp.GetMaxConnections())
	limit(&limits.MaxPendingRequests, http.GetHttp1MaxPendingRequests())
	limit(&limits.MaxRequests, http.GetHttp2MaxRequests())
	limit(&limits.MaxRetries, http.GetMaxRetries())
	limits.TrackRemaining = true

	if d := t.mesh.Config.GetConnectTimeout(); d != nil {
		c.ConnectTimeout = d
	}
	if d := tcp.GetConnectTimeout(); d != nil {
		c.ConnectTimeout = d
	}
	keepalive := tcp.GetTcpKeepalive()
	if keepalive == nil {
		keepalive = t.mesh.Config.GetTcpKeepalive()
	}
	if keepalive != nil {
		out := &corev3.TcpKeepalive{}
		if keepalive.Probes > 0 {
			out.KeepaliveProbes = wrapperspb.UInt32(keepalive.Probes)
		}
		if keepalive.Time != nil {
			out.KeepaliveTime = wrapperspb.UInt32(uint32(keepalive.Time.Seconds))
		}
		if keepalive.Interval != nil {
			out.KeepaliveInterval = wrapperspb.UInt32(uint32(keepalive.Interval.Seconds))
		}
		c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: out}
	}
	setHTTPOptions(c, p.httpOptions(t))
}

// httpOptions returns the HTTP protocol for the target's endpoints. At a sidecar, a port without a declared protocol
// uses the protocol of the client. Clients of a gateway negotiate HTTP/2 with the gateway itself, so a gateway uses
// HTTP/1.1 there unless a policy sets HTTP/2.
func (p policy) httpOptions(t target) httpOptions {
	http := p.pool.GetHttp()
	return httpOptions{
		http2:       t.port.Protocol.IsHTTP2() || upgrades(http, t),
		client:      http.GetUseClientProtocol() || t.port.Protocol == model.Unknown && !t.view.Gateway,
		pool:        http,
		maxDuration: p.pool.GetTcp().GetMaxConnectionDuration(),
		autoSNI:     namesHost(p.tls),
		autoSAN:     verifiesHost(p.tls),
	}
}

// upgrades reports whether HTTP/1.1 requests are sent over HTTP/2. Inbound clusters are never upgraded: the workload
// receives the protocol of its port.
func upgrades(http *networking.ConnectionPoolSettings_HTTPSettings, t target) bool {
	switch http.GetH2UpgradePolicy() {
	case networking.ConnectionPoolSettings_HTTPSettings_UPGRADE:
		return t.service != nil && (t.port.Protocol.IsHTTP() || t.port.Protocol == model.Unknown)
	case networking.ConnectionPoolSettings_HTTPSettings_DO_NOT_UPGRADE:
		return false
	default:
		return t.service != nil && t.port.Protocol.IsHTTP() && t.mesh.Config.GetH2UpgradePolicy() == meshconfig.MeshConfig_UPGRADE
	}
}

// applyOutlier enables the ejections that the policy sets, and by default the ejection after 5 consecutive errors
// (5xx). Envoy's ejection by success rate is disabled.
func (p policy) applyOutlier(c *clusterv3.Cluster) {
	in := p.outlier
	if in == nil {
		return
	}
	out := &clusterv3.OutlierDetection{
		Interval: in.Interval, BaseEjectionTime: in.BaseEjectionTime,
		EnforcingSuccessRate: wrapperspb.UInt32(0), EnforcingConsecutive_5Xx: wrapperspb.UInt32(0),
		EnforcingConsecutiveGatewayFailure: wrapperspb.UInt32(0),
	}
	all := wrapperspb.UInt32(100)
	switch n := in.Consecutive_5XxErrors; {
	case n == nil: // Istio's default is Envoy's, 5
		out.EnforcingConsecutive_5Xx = all
	case n.Value > 0:
		out.Consecutive_5Xx, out.EnforcingConsecutive_5Xx = n, all
	}
	if n := in.ConsecutiveGatewayErrors; n.GetValue() > 0 {
		out.ConsecutiveGatewayFailure, out.EnforcingConsecutiveGatewayFailure = n, all
	}
	if in.SplitExternalLocalOriginErrors {
		out.SplitExternalLocalOriginErrors = true
		out.EnforcingLocalOriginSuccessRate = wrapperspb.UInt32(0)
		if n := in.ConsecutiveLocalOriginFailures; n.GetValue() > 0 {
			out.ConsecutiveLocalOriginFailure, out.EnforcingConsecutiveLocalOriginFailure = n, all
		}
	}
	if in.MaxEjectionPercent > 0 {
		out.MaxEjectionPercent = wrapperspb.UInt32(uint32(in.MaxEjectionPercent))
	}
	c.OutlierDetection = out
}

// panicsBelow returns the percentage of available endpoints below which Envoy sends requests to all of them. It is 0
// unless a policy sets it: with Envoy's default, 50, endpoints that are not ready would receive requests as soon as half
// of them are not. A policy's percentage is of those that are ready, so the others are left out: see reachable.
func (p policy) panicsBelow() float64 { return float64(p.outlier.GetMinHealthPercent()) }

func lbConfig(c *clusterv3.Cluster) *clusterv3.Cluster_CommonLbConfig {
	if c.CommonLbConfig == nil {
		c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{}
	}
	return c.CommonLbConfig
}

// applyProxyProtocol wraps the cluster's transport socket in one that sends the PROXY header.
func (p policy) applyProxyProtocol(c *clusterv3.Cluster) {
	if p.proxyProtocol == nil {
		return
	}
	wrapped := func(inner *corev3.TransportSocket) *corev3.TransportSocket {
		return transportSocket("envoy.transport_sockets.upstream_proxy_protocol",
			&proxyprotocolv3.ProxyProtocolUpstreamTransport{
				Config:          &corev3.ProxyProtocolConfig{Version: corev3.ProxyProtocolConfig_Version(p.proxyProtocol.Version)},
				TransportSocket: inner,
			})
	}
	for _, m := range c.TransportSocketMatches {
		m.TransportSocket = wrapped(m.TransportSocket)
	}
	switch {
	case c.TransportSocket != nil:
		c.TransportSocket = wrapped(c.TransportSocket)
	case c.TransportSocketMatches == nil:
		c.TransportSocket = wrapped(rawBuffer())
	}
}

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
