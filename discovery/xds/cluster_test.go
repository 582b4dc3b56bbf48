package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestClusterPerPortAndSubset(t *testing.T) {
	s := service(fqdn("reviews"), httpPort(9080), at("127.0.0.13", "v1"), at("127.0.0.14", "v2"))
	s.Ports = append(s.Ports, model.Port{Name: "tcp", Number: 7000, Protocol: model.TCP})
	r := Build(mesh(s, versions("reviews")), viewOf(t, "127.0.0.9"))
	got := map[string]string{} // EDS cluster → addresses
	for _, e := range r.Endpoints {
		var addresses []string
		for _, locality := range e.Endpoints {
			for _, endpoint := range locality.LbEndpoints {
				addresses = append(addresses, socketOf(endpoint).GetAddress())
			}
		}
		got[e.ClusterName] = strings.Join(addresses, " ")
	}
	want := map[string]string{
		"outbound|9080||" + fqdn("reviews"):   "127.0.0.13 127.0.0.14",
		"outbound|9080|v1|" + fqdn("reviews"): "127.0.0.13",
		"outbound|9080|v2|" + fqdn("reviews"): "127.0.0.14",
		"outbound|7000||" + fqdn("reviews"):   "127.0.0.13 127.0.0.14",
		"outbound|7000|v1|" + fqdn("reviews"): "127.0.0.13",
		"outbound|7000|v2|" + fqdn("reviews"): "127.0.0.14",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("endpoints by cluster (-want +got):\n%s", diff)
	}
	for _, c := range r.Clusters {
		if c.GetType() == clusterv3.Cluster_EDS && c.EdsClusterConfig.GetServiceName() != c.Name {
			t.Errorf("cluster %s asks for endpoints of %q", c.Name, c.EdsClusterConfig.GetServiceName())
		}
	}
}

// Endpoints that are not ready receive nothing, whatever their share: Envoy's panic is off, unless a rule sets a
// threshold. Then they are not listed, so that the threshold is a share of those that are ready.
func TestUnhealthyEndpointsGetNothing(t *testing.T) {
	outliers := func(percent int32) *networking.OutlierDetection {
		return &networking.OutlierDetection{MinHealthPercent: percent}
	}
	listed := []string{"127.0.0.13 UNKNOWN", "127.0.0.14 UNHEALTHY", "127.0.0.15 DRAINING"}
	for name, tt := range map[string]struct {
		outliers, all *networking.OutlierDetection // of the rule, and of the whole mesh
		panics        float64
		want          []string
	}{
		"no rule":                        {nil, nil, 0, listed},
		"a rule without a threshold":     {outliers(0), nil, 0, listed},
		"a rule with a threshold":        {outliers(30), nil, 30, listed[:1]},
		"a threshold for the whole mesh": {nil, outliers(30), 30, listed[:1]},
		"a rule's counts more":           {outliers(0), outliers(30), 0, listed},
	} {
		s := service(fqdn("reviews"), httpPort(9080), at("127.0.0.13", "v1"), at("127.0.0.14", "v1"), at("127.0.0.15", "v1"), at("127.0.0.16", "v1"), at("127.0.0.17", "v1"))
		for i, h := range []model.Health{model.HealthHealthy, model.HealthUnhealthy, model.HealthDraining, model.HealthTerminating, model.HealthUnready} {
			s.Endpoints[i].Health = h
		}
		rule := versions("reviews")
		rule.TrafficPolicy = &networking.TrafficPolicy{OutlierDetection: tt.outliers}
		settings := &meshconfig.MeshConfig{DefaultTrafficPolicy: &meshconfig.MeshConfig_DefaultTrafficPolicy{OutlierDetection: tt.all}}
		r := Build(mesh(s, rule, settings), viewOf(t, "127.0.0.9"))
		for _, c := range r.Clusters {
			if p := c.CommonLbConfig.GetHealthyPanicThreshold(); strings.HasPrefix(c.Name, "outbound|") && (p == nil || p.Value != tt.panics) {
				t.Errorf("%s: %s panics below %v, want %v", name, c.Name, p, tt.panics)
			}
		}
		for _, subset := range []string{"", "v1"} {
			if diff := cmp.Diff(tt.want, health(r, subset)); diff != "" {
				t.Errorf("%s: subset %q (-want +got):\n%s", name, subset, diff)
			}
		}
	}
}

// An endpoint that ends and still serves receives requests as long as no other endpoint of the subset does, as by
// kube-proxy. One that was taken out on purpose does not.
func TestTheLastEndpointsServeUntilTheyEnd(t *testing.T) {
	const healthy, unhealthy, draining, terminating = model.HealthHealthy, model.HealthUnhealthy, model.HealthDraining, model.HealthTerminating
	for name, tt := range map[string]struct {
		health  []model.Health
		partial int  // how many at the beginning do not serve the port
		other   bool // the second one is of another subset
		want    []string
	}{
		"another one serves":             {[]model.Health{terminating, healthy}, 0, false, []string{"127.0.0.1 UNKNOWN"}},
		"health is not reported":         {[]model.Health{terminating, model.HealthUnknown}, 0, false, []string{"127.0.0.1 UNKNOWN"}},
		"the only one":                   {[]model.Health{terminating}, 0, false, []string{"127.0.0.0 UNKNOWN"}},
		"the others are not ready":       {[]model.Health{terminating, unhealthy}, 0, false, []string{"127.0.0.0 UNKNOWN", "127.0.0.1 UNHEALTHY"}},
		"the other is in maintenance":    {[]model.Health{terminating, draining}, 0, false, []string{"127.0.0.0 UNKNOWN", "127.0.0.1 DRAINING"}},
		"all are in maintenance":         {[]model.Health{draining, draining}, 0, false, []string{"127.0.0.0 DRAINING", "127.0.0.1 DRAINING"}},
		"the other has not this port":    {[]model.Health{healthy, terminating}, 1, false, []string{"127.0.0.1 UNKNOWN"}},
		"the other is of another subset": {[]model.Health{terminating, healthy}, 0, true, []string{"127.0.0.0 UNKNOWN"}},
	} {
		s := service(fqdn("reviews"), httpPort(9080))
		for i, h := range tt.health {
			e := at(fmt.Sprintf("127.0.0.%d", i), "v1")
			e.Health, e.Partial = h, i < tt.partial
			s.Endpoints = append(s.Endpoints, e)
		}
		if tt.other {
			s.Endpoints[1].Labels = map[string]string{"version": "v2"}
		}
		if diff := cmp.Diff(tt.want, health(Build(mesh(s, versions("reviews")), viewOf(t, "127.0.0.9")), "v1")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// health describes the endpoints of a subset of reviews: "10.0.0.1 DRAINING".
func health(r *Resources, subset string) (out []string) {
	for _, a := range r.Endpoints {
		if a.ClusterName != outboundName(9080, subset, fqdn("reviews")) {
			continue
		}
		for _, group := range a.Endpoints {
			for _, e := range group.LbEndpoints {
				out = append(out, fmt.Sprintf("%s %s", socketOf(e).GetAddress(), e.HealthStatus))
			}
		}
	}
	return out
}

func TestEndpointsAreTheServices(t *testing.T) {
	port := httpPort(80)
	tests := map[string]struct {
		endpoints []model.Endpoint
		want      string // address:port*weight, in order
	}{
		"none":           {nil, ""},
		"sorted":         {[]model.Endpoint{{Address: "10.0.0.2"}, {Address: "10.0.0.1"}}, "10.0.0.1:80*0 10.0.0.2:80*0"},
		"its own port":   {[]model.Endpoint{{Address: "10.0.0.1", Ports: map[string]uint32{"http": 8080}}}, "10.0.0.1:8080*0"},
		"weight":         {[]model.Endpoint{{Address: "10.0.0.1", Weight: 5}}, "10.0.0.1:80*5"},
		"not an address": {[]model.Endpoint{{Address: "example.com"}, {Address: "10.0.0.1"}}, "10.0.0.1:80*0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := Build(mesh(service("a.com", port, test.endpoints...)), viewOf(t, "127.0.0.9"))
			if len(r.Endpoints) != 1 {
				t.Fatalf("got %d assignments, want one, empty or not", len(r.Endpoints))
			}
			if got := describe(r.Endpoints[0]); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLoadBalancer(t *testing.T) {
	simple := func(lb networking.LoadBalancerSettings_SimpleLB) *networking.LoadBalancerSettings {
		return &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: lb}}
	}
	roundRobin := &networking.TrafficPolicy{LoadBalancer: simple(networking.LoadBalancerSettings_ROUND_ROBIN)}
	random := &networking.TrafficPolicy{LoadBalancer: simple(networking.LoadBalancerSettings_RANDOM)}
	passthrough := &networking.TrafficPolicy{LoadBalancer: simple(networking.LoadBalancerSettings_PASSTHROUGH)}
	tests := map[string]struct {
		subset, host *networking.TrafficPolicy
		want         clusterv3.Cluster_LbPolicy
	}{
		"default":              {nil, nil, clusterv3.Cluster_LEAST_REQUEST},
		"the host's":           {nil, roundRobin, clusterv3.Cluster_ROUND_ROBIN},
		"a subset overrides":   {random, roundRobin, clusterv3.Cluster_RANDOM},
		"PASSTHROUGH as it is": {passthrough, random, clusterv3.Cluster_CLUSTER_PROVIDED},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rule := &networking.DestinationRule{
				Host:    "a.com",
				Subsets: []*networking.Subset{{Name: "v1", TrafficPolicy: test.subset}}, TrafficPolicy: test.host,
			}
			proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.9~app.default~"+clusterDomain, nil))
			if err != nil {
				t.Fatal(err)
			}
			r := Build(mesh(service("a.com", httpPort(80)), rule), ViewOf(proxy))
			c := served(t, r.Clusters, "outbound|80|v1|a.com")
			if c.LbPolicy != test.want {
				t.Errorf("got %v, want %v", c.LbPolicy, test.want)
			}
		})
	}
}

// A proxy receives the health of all endpoints of its network. Of another network it receives only endpoints that take
// new requests.
func TestHealthReachesEDS(t *testing.T) {
	health := []model.Health{model.HealthUnknown, model.HealthHealthy, model.HealthDraining, model.HealthUnhealthy}
	s := service("a.com", httpPort(80))
	for i, h := range health {
		s.Endpoints = append(s.Endpoints, model.Endpoint{Address: fmt.Sprintf("10.0.0.%d", i), Health: h, Weight: 2})
		s.Endpoints = append(s.Endpoints, model.Endpoint{Address: fmt.Sprintf("10.1.0.%d", i), Health: h, Network: "far"})
	}
	far := &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{"far": {Gateways: []*meshconfig.Network_IstioNetworkGateway{
		{Gw: &meshconfig.Network_IstioNetworkGateway_Address{Address: "192.0.2.1"}, Port: 15443},
	}}}}
	v := viewOf(t, "127.0.0.9")
	v.Outbound.Network = "near"
	var got []string
	for _, group := range Build(mesh(s, far), v).Endpoints[0].Endpoints {
		for _, e := range group.LbEndpoints {
			got = append(got, fmt.Sprintf("%s*%d %s", socketOf(e).GetAddress(), e.GetLoadBalancingWeight().GetValue(), e.HealthStatus))
		}
	}
	want := []string{"10.0.0.0*2 UNKNOWN", "10.0.0.1*2 UNKNOWN", "10.0.0.2*2 DRAINING", "10.0.0.3*2 UNHEALTHY", "192.0.2.1*2 UNKNOWN"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Without an original destination, a cluster has the endpoints of its service, or Envoy resolves the hosts that programs name to an
// HTTP proxy.
func TestNoOriginalDestination(t *testing.T) {
	one := model.Endpoint{Address: "10.0.0.1"}
	headless := func(s *model.Service) { s.Headless, s.Resolution = true, model.ResolutionNone }
	none := func(s *model.Service) { s.Resolution = model.ResolutionNone }
	static := func(*model.Service) {}
	passed := &networking.DestinationRule{Host: fqdn("db"), TrafficPolicy: &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
		LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: networking.LoadBalancerSettings_PASSTHROUGH},
	}}}
	redirected, bound := map[string]any{"HTTP_PROXY_PORT": "15080"}, map[string]any{"INTERCEPTION_MODE": "NONE"}
	proxied := map[string]any{"INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": "15080"}
	for name, test := range map[string]struct {
		kind      func(*model.Service)
		endpoints []model.Endpoint
		rule      *networking.DestinationRule
		metadata  map[string]any
		want      string
		pods      bool // the names of Pods lead to the cluster
	}{
		"NONE":                             {none, nil, nil, proxied, "dynamic_forward_proxy", false},
		"NONE, with an endpoint":           {none, []model.Endpoint{one}, nil, proxied, "EDS 1", false},
		"NONE, no proxy":                   {none, nil, nil, bound, "EDS 0", false},
		"NONE, intercepted":                {none, nil, nil, redirected, "ORIGINAL_DST", false},
		"headless":                         {headless, []model.Endpoint{one}, nil, proxied, "EDS 1", false},
		"headless, no endpoint":            {headless, nil, nil, proxied, "EDS 0", false},
		"headless, no proxy":               {headless, []model.Endpoint{one}, nil, bound, "EDS 1", false},
		"headless, intercepted":            {headless, []model.Endpoint{one}, nil, redirected, "ORIGINAL_DST", true},
		"PASSTHROUGH":                      {static, []model.Endpoint{one}, passed, proxied, "EDS 1", false},
		"PASSTHROUGH, no endpoint":         {static, nil, passed, proxied, "EDS 0", false},
		"PASSTHROUGH, intercepted":         {static, []model.Endpoint{one}, passed, redirected, "ORIGINAL_DST", false},
		"NONE and PASSTHROUGH":             {none, nil, passed, proxied, "dynamic_forward_proxy", false},
		"headless, passed, with endpoints": {headless, []model.Endpoint{one}, passed, proxied, "EDS 1", false},
	} {
		db := service(fqdn("db"), httpPort(80), test.endpoints...)
		test.kind(db)
		proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.9~app.default~"+clusterDomain, test.metadata))
		if err != nil {
			t.Fatal(err)
		}
		parts := []any{db}
		if test.rule != nil {
			parts = append(parts, test.rule)
		}
		r := Build(mesh(parts...), ViewOf(proxy))
		got := "no cluster"
		for _, c := range r.Clusters {
			if c.Name != outboundName(80, "", db.Host) {
				continue
			}
			got = c.GetType().String()
			if custom := c.GetClusterType().GetName(); custom != "" {
				got = strings.TrimPrefix(custom, "envoy.clusters.")
			} else if c.GetType() == clusterv3.Cluster_EDS {
				i := slices.IndexFunc(r.Endpoints, func(e *endpointv3.ClusterLoadAssignment) bool { return e.ClusterName == c.Name })
				got = fmt.Sprint("EDS ", len(r.Endpoints[i].Endpoints))
			}
			if given := c.LbPolicy == clusterv3.Cluster_CLUSTER_PROVIDED; given == strings.HasPrefix(got, "EDS") {
				t.Errorf("%s: %s has the balancer %v", name, got, c.LbPolicy)
			}
		}
		pods := slices.ContainsFunc(r.Routes, func(table *routev3.RouteConfiguration) bool {
			return slices.ContainsFunc(table.VirtualHosts, func(h *routev3.VirtualHost) bool {
				return slices.ContainsFunc(h.Domains, func(d string) bool { return strings.HasPrefix(d, "*.db") })
			})
		})
		if got != test.want || pods != test.pods {
			t.Errorf("%s: the cluster is %s, and the names of Pods lead to it: %t; want %s, %t", name, got, pods, test.want, test.pods)
		}
	}
}
