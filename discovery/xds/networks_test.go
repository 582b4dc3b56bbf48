package xds

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The widest range that contains an address selects its network, in any iteration order of Go's maps.
func TestNetworkOf(t *testing.T) {
	network := func(ranges ...string) *meshconfig.Network {
		out := &meshconfig.Network{}
		for _, r := range ranges {
			out.Endpoints = append(out.Endpoints, &meshconfig.Network_NetworkEndpoints{
				Ne: &meshconfig.Network_NetworkEndpoints_FromCidr{FromCidr: r},
			})
		}
		return out
	}
	settings := model.Settings{Config: &meshconfig.MeshConfig{}, Networks: &meshconfig.MeshNetworks{
		Networks: map[string]*meshconfig.Network{
			"a": network("10.0.0.0/24", "10.2.0.0/16"), "b": network("10.0.0.0/16", "10.2.0.0/16", "fd00::1"),
			"c": network("10.0.0.1/32", "192.0.2.1", "none"),
		},
	}}
	for address, want := range map[string]string{
		"10.0.0.1": "b", "10.2.0.1": "a", "192.0.2.1": "c", "192.0.2.2": "", "fd00::1": "b", "name.test": "",
	} {
		for range 50 {
			if got := networkOf(model.Endpoint{Address: address}, settings); got != want {
				t.Fatalf("%s is in %q, want %q", address, got, want)
			}
		}
	}
}

func TestOneOfTwoHostsCounts(t *testing.T) {
	for range 50 {
		headers := &networking.Headers{Request: &networking.Headers_HeaderOperations{
			Set: map[string]string{":authority": "a.test", "host": "b.test", "x": "y"},
		}}
		if got := hostOf(headers); got != "b.test" {
			t.Fatalf("the host becomes %s", got)
		}
	}
}
