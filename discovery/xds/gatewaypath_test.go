package xds

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// A gateway takes the short path for endpoints too: of services that its rules name and of others, under the names of
// AUTO_PASSTHROUGH as well. Nothing else is made, however many rules it has. A change of a rule is seen in its routes.
func TestGatewaysTakeTheShortPath(t *testing.T) {
	const n = 100
	port := func(number uint32, protocol string) *networking.Port {
		return &networking.Port{Number: number, Name: fmt.Sprint("p", number), Protocol: protocol}
	}
	rule := func(i int, subset string) model.Group {
		g := townRule(i, subset)
		g.Objects[0].Spec.(*networking.VirtualService).Gateways = []string{"default/g"}
		return g
	}
	passing := &networking.Server{
		Port: port(15443, "TLS"), Hosts: []string{"*"}, Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_AUTO_PASSTHROUGH},
	}
	view := ViewOf(Proxy{
		ID:       node.ID{Role: node.Router, IP: "10.9.9.9", Name: "gw.default", Domain: clusterDomain},
		Metadata: node.Metadata{Namespace: "default", Labels: map[string]string{"app": "gw"}},
	}).Outbound
	for name, c := range map[string]struct {
		servers []*networking.Server
		want    [2]int // assignments that are made for a service without subsets, and for one with two
	}{
		"HTTP":             {[]*networking.Server{{Port: port(80, "HTTP"), Hosts: []string{"*"}}}, [2]int{2, 4}},
		"AUTO_PASSTHROUGH": {[]*networking.Server{{Port: port(80, "HTTP"), Hosts: []string{"*"}}, passing}, [2]int{4, 8}},
	} {
		groups := town(n)
		for i := range n {
			groups[fmt.Sprintf("rule/%d", i)] = rule(i, "")
		}
		groups["gateway"] = model.Group{Objects: []*model.Object{{
			Meta: model.Meta{Kind: "Gateway", Namespace: "default", Name: "g"},
			Spec: &networking.Gateway{Selector: map[string]string{"app": "gw"}, Servers: c.servers},
		}}}
		mesh := model.New(inOrder(groups))
		last := BuildOutbound(mesh, view)
		if len(last.Listeners) == 0 || len(last.Routes) == 0 {
			t.Fatalf("%s: the gateway has no listener or no routes", name)
		}
		for i, service := range []*model.Service{townService(7, "10.0.0.9"), townService(10, "10.0.0.8"), townService(7, "10.0.0.1")} {
			next, ok := mesh.With([]*model.Service{service}, nil)
			if !ok {
				t.Fatal("a change of endpoints alone is not taken as one")
			}
			groups[fmt.Sprintf("service/%d", []int{7, 10, 7}[i])] = model.Group{Services: []*model.Service{service}}
			r := RebuildOutbound(last, next, view)
			if whole := BuildOutbound(model.New(inOrder(groups)), view); !sameResources(whole, r) {
				t.Errorf("%s, step %d: the short path gives something else", name, i)
			}
			patch, ok := r.PatchOf(last)
			if want := c.want[i%2]; !ok || len(patch.Endpoints) != want || len(patch.Clusters)+len(patch.Routes) > 0 {
				t.Errorf("%s, step %d: made %+v, by the short path %t: want %d assignments", name, i, patch, ok, want)
			}
			mesh, last = next, r
		}
		groups["rule/10"] = rule(10, "v2")
		next, ok := mesh.With(nil, groups["rule/10"].Objects)
		if !ok {
			t.Fatal("a change of routes alone is not taken as one")
		}
		r := RebuildOutbound(last, next, view)
		if whole := BuildOutbound(model.New(inOrder(groups)), view); !sameResources(whole, r) || fresh(last.Routes, r.Routes) == 0 {
			t.Errorf("%s: a changed rule is not in the routes", name)
		}
	}
}
