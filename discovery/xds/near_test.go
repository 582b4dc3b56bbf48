package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// By the Service's setting, only endpoints of the proxy's own node are used, or the nearest first. A DestinationRule
// with locality settings has priority.
func TestNearEndpoints(t *testing.T) {
	web := func(change func(*model.Service)) *model.Service {
		s := service(fqdn("web"), httpPort(80))
		for _, e := range [][2]string{{"n1", "r/z1"}, {"n2", "r/z1"}, {"n3", "r/z2"}, {"n4", "q/z1"}} {
			s.Endpoints = append(s.Endpoints, model.Endpoint{
				Address: "10.0.0." + e[0][1:], Node: e[0], Locality: model.ParseLocality(e[1]),
			})
		}
		change(s)
		return s
	}
	proxy := func(node, where string) Proxy {
		n := envoyNode(t, "sidecar~10.0.0.9~c.default~"+clusterDomain, map[string]any{"NAMESPACE": "default", "NODE_NAME": node})
		p, err := ParseProxy(n)
		if err != nil {
			t.Fatal(err)
		}
		p.Locality = model.ParseLocality(where)
		return p
	}
	rule := &networking.DestinationRule{Host: fqdn("web"), TrafficPolicy: &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
		LocalityLbSetting: &networking.LocalityLoadBalancerSetting{},
	}}}
	none := func(*model.Service) {}
	local := func(s *model.Service) { s.NodeLocal = true }
	zone := func(s *model.Service) { s.Prefer = model.PreferZone }
	node := func(s *model.Service) { s.Prefer = model.PreferNode }
	const all = "10.0.0.1/0 10.0.0.2/0 10.0.0.3/0 10.0.0.4/0"
	for name, test := range map[string]struct {
		mesh  *model.Mesh
		proxy Proxy
		want  string
	}{
		"all":                           {mesh(web(none)), proxy("n1", "r/z1"), all},
		"of the node":                   {mesh(web(local)), proxy("n2", "r/z1"), "10.0.0.2/0"},
		"of a node without one":         {mesh(web(local)), proxy("n9", "r/z1"), ""},
		"of a node that is not known":   {mesh(web(local)), proxy("", ""), all},
		"the zone first":                {mesh(web(zone)), proxy("n1", "r/z1"), "10.0.0.1/0 10.0.0.2/0 10.0.0.3/1 10.0.0.4/2"},
		"from elsewhere":                {mesh(web(zone)), proxy("n1", "p/z1"), all},
		"from nowhere":                  {mesh(web(zone)), proxy("n1", ""), all},
		"the node first":                {mesh(web(node)), proxy("n1", "r/z1"), "10.0.0.1/0 10.0.0.2/1 10.0.0.3/2 10.0.0.4/3"},
		"the node first, no zone known": {mesh(web(node)), proxy("n2", ""), "10.0.0.2/0 10.0.0.1/1 10.0.0.3/1 10.0.0.4/1"},
		"a policy counts more":          {mesh(web(zone), rule), proxy("n1", "r/z1"), all},
	} {
		t.Run(name, func(t *testing.T) {
			out := Build(test.mesh, ViewOf(test.proxy))
			i := slices.IndexFunc(out.Endpoints, func(a *endpointv3.ClusterLoadAssignment) bool { return strings.HasSuffix(a.ClusterName, fqdn("web")) })
			if i < 0 {
				t.Fatal("there is no answer for the cluster")
			}
			var got []string
			for _, group := range out.Endpoints[i].Endpoints {
				for _, e := range group.LbEndpoints {
					got = append(got, fmt.Sprintf("%s/%d", socketOf(e).Address, group.Priority))
				}
			}
			slices.SortFunc(got, func(a, b string) int { return strings.Compare(a[len(a)-1:]+a, b[len(b)-1:]+b) })
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("endpoints and their priorities are %s, want %s", got, test.want)
			}
		})
	}
	// Proxies of two nodes share resources, unless the endpoints of a service depend on nodes.
	one, two := ViewOf(proxy("n1", "r/z1")).Outbound, ViewOf(proxy("n2", "r/z1")).Outbound
	if m := mesh(web(zone)); one.In(m) != two.In(m) {
		t.Error("two nodes have two views, and nothing looks at nodes")
	}
	if m := mesh(web(local)); one.In(m) == two.In(m) {
		t.Error("two nodes share a view of a service that looks at nodes")
	}
}
