package plane

import (
	"slices"
	"testing"
)

// A registry may have the hosts of its domains, and none of another's.
func TestElsewhere(t *testing.T) {
	domains := Domains{Consul: []string{"consul", "DC.example"}, Eureka: []string{"apps.example.com"}, CloudFoundry: []string{"*"}}
	hosts := []string{"a.shop.svc.cluster.local", "a.service.consul", "a.service.dc.example", "a.service.eureka", "a.apps.example.com", "a.example.org"}
	for name, want := range map[string][]bool{
		"Kubernetes":   {true, false, false, false, false, false},
		"Mock":         {true, false, false, false, false, false},
		"Consul":       {false, true, true, false, false, false},
		"Eureka":       {false, false, false, true, true, false},
		"CloudFoundry": {false, false, false, false, true, true}, // DC.example is Consul's, however it is spelt
	} {
		registries := domains.Elsewhere("", []string{name})
		var got []bool
		for _, host := range hosts {
			_, err := registries[0].Hosts.Right(host)
			got = append(got, err == nil)
		}
		if !slices.Equal(got, want) || registries[0].Cluster != (name == Kubernetes) {
			t.Errorf("%s: %v, want %v of %v", name, got, want, hosts)
		}
	}
}
