package xds

import (
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
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

// If a registry reports which endpoints are healthy, others receive requests only if none is healthy, unless a rule
// sets another threshold.
func TestUnhealthyEndpointsGetNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		checked  bool
		outliers *networking.OutlierDetection
		want     float64 // percent; -1 for Envoy's default
	}{
		"nobody knows":           {false, nil, -1},
		"the registry knows":     {true, nil, 1},
		"and the rule says more": {true, &networking.OutlierDetection{MinHealthPercent: 30}, 30},
	} {
		s := service(fqdn("reviews"), httpPort(9080), at("127.0.0.13", "v1"))
		s.Checked = tt.checked
		rule := versions("reviews")
		rule.TrafficPolicy = &networking.TrafficPolicy{OutlierDetection: tt.outliers}
		for _, c := range Build(mesh(s, rule), viewOf(t, "127.0.0.9")).Clusters {
			if !strings.HasPrefix(c.Name, "outbound|") {
				continue
			}
			got := -1.0
			if p := c.CommonLbConfig.GetHealthyPanicThreshold(); p != nil {
				got = p.Value
			}
			if got != tt.want {
				t.Errorf("%s: %s panics below %v %%, want %v", name, c.Name, got, tt.want)
			}
		}
	}
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
			r := Build(mesh(service("a.com", httpPort(80)), rule), viewOf(t, "127.0.0.9"))
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
