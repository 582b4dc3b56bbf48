package model

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Views differ by locality only where a service, a policy or the mesh orders endpoints by it.
func TestReadsLocalities(t *testing.T) {
	outlier := &networking.OutlierDetection{}
	share := []*networking.LocalityLoadBalancerSetting_Distribute{{From: "r/*", To: map[string]uint32{"r/*": 100}}}
	lb := func(s *networking.LocalityLoadBalancerSetting) *networking.LoadBalancerSettings {
		return &networking.LoadBalancerSettings{LocalityLbSetting: s}
	}
	rule := func(p *networking.TrafficPolicy, subsets ...*networking.Subset) *Object {
		return object("DestinationRule", "a", "d", 1, &networking.DestinationRule{Host: "x.test", TrafficPolicy: p, Subsets: subsets})
	}
	config := func(c *meshconfig.MeshConfig) *Object { return object("MeshConfig", "", "mesh", 1, c) }
	on, off := wrapperspb.Bool(true), wrapperspb.Bool(false)
	disabled := config(&meshconfig.MeshConfig{LocalityLbSetting: &networking.LocalityLoadBalancerSetting{Enabled: off}})
	for name, test := range map[string]struct {
		objects []*Object
		change  func(*Service)
		want    bool
	}{
		"nothing":                  {nil, nil, false},
		"a preference":             {nil, func(s *Service) { s.Prefer = PreferZone }, true},
		"of the node":              {nil, func(s *Service) { s.Prefer = PreferNode }, true},
		"outliers":                 {[]*Object{rule(&networking.TrafficPolicy{OutlierDetection: outlier})}, nil, true},
		"outliers of a port":       {[]*Object{rule(&networking.TrafficPolicy{PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{{OutlierDetection: outlier}}})}, nil, true},
		"outliers of a subset":     {[]*Object{rule(nil, &networking.Subset{TrafficPolicy: &networking.TrafficPolicy{OutlierDetection: outlier}})}, nil, true},
		"outliers of the mesh":     {[]*Object{config(&meshconfig.MeshConfig{DefaultTrafficPolicy: &meshconfig.MeshConfig_DefaultTrafficPolicy{OutlierDetection: outlier}})}, nil, true},
		"another policy":           {[]*Object{rule(&networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{}})}, nil, false},
		"priorities, no outliers":  {[]*Object{rule(&networking.TrafficPolicy{LoadBalancer: lb(&networking.LocalityLoadBalancerSetting{Enabled: on})})}, nil, false},
		"shares":                   {[]*Object{rule(&networking.TrafficPolicy{LoadBalancer: lb(&networking.LocalityLoadBalancerSetting{Distribute: share})})}, nil, true},
		"shares, switched off":     {[]*Object{rule(&networking.TrafficPolicy{LoadBalancer: lb(&networking.LocalityLoadBalancerSetting{Enabled: off, Distribute: share})})}, nil, false},
		"shares of the mesh":       {[]*Object{config(&meshconfig.MeshConfig{LocalityLbSetting: &networking.LocalityLoadBalancerSetting{Distribute: share}})}, nil, true},
		"outliers, switched off":   {[]*Object{disabled, rule(&networking.TrafficPolicy{OutlierDetection: outlier})}, nil, false},
		"and on again in a policy": {[]*Object{disabled, rule(&networking.TrafficPolicy{OutlierDetection: outlier, LoadBalancer: lb(&networking.LocalityLoadBalancerSetting{})})}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := in("a", "x.test")
			if test.change != nil {
				test.change(s)
			}
			m := New(slices.Values([]Group{{Services: []*Service{s}, Objects: test.objects}}))
			if got := m.ReadsLocalities(); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}
