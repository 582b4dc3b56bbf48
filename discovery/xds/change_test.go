package xds

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// town returns a mesh of n services, each with an HTTP and a TCP port, a VirtualService and a DestinationRule, by
// group.
func town(n int) map[string]model.Group {
	groups := make(map[string]model.Group, 3*n)
	for i := range n {
		groups[fmt.Sprintf("service/%d", i)] = model.Group{Services: []*model.Service{townService(i, "10.0.0.1")}}
		if i%10 == 0 {
			groups[fmt.Sprintf("rule/%d", i)] = townRule(i, "v1")
			groups[fmt.Sprintf("policy/%d", i)] = model.Group{Objects: []*model.Object{{
				Meta: model.Meta{Kind: "DestinationRule", Namespace: "default", Name: fmt.Sprint(i)},
				Spec: versions(townHost(i)),
			}}}
		}
	}
	return groups
}

func townHost(i int) string { return fmt.Sprintf("s%d.default.svc.cluster.local", i) }

func townService(i int, address string) *model.Service {
	return &model.Service{
		Right: model.RightFull, Host: townHost(i), Namespace: "default", Resolution: model.ResolutionStatic,
		Addresses: []string{fmt.Sprintf("10.96.%d.%d", i/250, i%250)},
		Ports:     []model.Port{httpPort(80), {Name: "tcp", Number: 9000, Protocol: model.TCP}},
		Endpoints: []model.Endpoint{at(address, "v1"), at("10.0.0.2", "v2")},
	}
}

func townRule(i int, subset string) model.Group {
	return model.Group{Objects: []*model.Object{{
		Meta: model.Meta{Kind: "VirtualService", Namespace: "default", Name: fmt.Sprint(i)},
		Spec: &networking.VirtualService{Hosts: []string{townHost(i)}, Http: []*networking.HTTPRoute{
			{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{
				Host: townHost(i), Subset: subset, Port: &networking.PortSelector{Number: 80},
			}}}},
		}},
	}}}
}

func townView() Outbound {
	return ViewOf(Proxy{
		ID:       node.ID{Role: node.Sidecar, IP: "10.9.9.9", Name: "a.default", Domain: clusterDomain},
		Metadata: node.Metadata{Namespace: "default", InterceptionMode: node.Redirect},
	}).Outbound
}

func inOrder(groups map[string]model.Group) func(func(model.Group) bool) {
	keys := slices.Sorted(maps.Keys(groups))
	return func(yield func(model.Group) bool) {
		for _, key := range keys {
			if !yield(groups[key]) {
				return
			}
		}
	}
}

// An update rebuilds only the resources that it affects: every other message is the same pointer as before and need not
// be encoded again.
func TestAChangeTouchesOnlyItsOwn(t *testing.T) {
	const n = 200
	for name, test := range map[string]struct {
		change func(groups map[string]model.Group)
		want   string
	}{
		"nothing": {func(map[string]model.Group) {}, "clusters 0, endpoints 0, listeners 0, routes 0"},
		"an endpoint": {func(groups map[string]model.Group) {
			one := townService(7, "10.0.0.9")
			one.Ports = one.Ports[:]
			groups["service/7"] = model.Group{Services: []*model.Service{one}}
		}, "clusters 0, endpoints 2, listeners 0, routes 0"}, // its two ports
		"a VirtualService": {func(groups map[string]model.Group) {
			groups["rule/10"] = townRule(10, "v2")
		}, "clusters 0, endpoints 0, listeners 0, routes 1"},
		"a new service": {func(groups map[string]model.Group) {
			groups["service/new"] = model.Group{Services: []*model.Service{townService(n+1, "10.0.0.1")}}
		}, "clusters 2, endpoints 2, listeners 1, routes 1"},
		"a DestinationRule": {func(groups map[string]model.Group) {
			rule := versions(townHost(10))
			rule.TrafficPolicy = &networking.TrafficPolicy{OutlierDetection: &networking.OutlierDetection{MinHealthPercent: 1}}
			groups["policy/10"] = model.Group{Objects: []*model.Object{{
				Meta: model.Meta{Kind: "DestinationRule", Namespace: "default", Name: "10"}, Spec: rule,
			}}}
		}, "clusters 6, endpoints 0, listeners 0, routes 0"},
	} {
		t.Run(name, func(t *testing.T) {
			groups := town(n)
			mesh := model.New(inOrder(groups))
			last := BuildOutbound(mesh, townView())
			test.change(groups)
			next := RebuildOutbound(last, mesh.Next(inOrder(groups)), townView())
			got := fmt.Sprintf("clusters %d, endpoints %d, listeners %d, routes %d",
				fresh(last.Clusters, next.Clusters), fresh(last.Endpoints, next.Endpoints),
				fresh(last.Listeners, next.Listeners), fresh(last.Routes, next.Routes))
			if got != test.want {
				t.Errorf("made anew: %s; want %s", got, test.want)
			}
			if whole := BuildOutbound(mesh.Next(inOrder(groups)), townView()); !sameResources(whole, next) {
				t.Error("what was taken over is not what would have been made")
			}
		})
	}
}

// For endpoints, the short path (model.With) gives the same result as the long one.
func TestEndpointsTakeTheShortPath(t *testing.T) {
	groups := town(100)
	mesh := model.New(inOrder(groups))
	last := BuildOutbound(mesh, townView())
	for i, service := range []*model.Service{townService(7, "10.0.0.9"), townService(10, "10.0.0.8"), townService(7, "10.0.0.1")} {
		next, ok := mesh.With([]*model.Service{service}, nil)
		if !ok {
			t.Fatal("a change of endpoints alone is not taken as one")
		}
		groups[fmt.Sprintf("service/%d", []int{7, 10, 7}[i])] = model.Group{Services: []*model.Service{service}}
		r := RebuildOutbound(last, next, townView())
		if whole := BuildOutbound(model.New(inOrder(groups)), townView()); !sameResources(whole, r) {
			t.Errorf("step %d: the short path gives something else", i)
		}
		if n := fresh(last.Endpoints, r.Endpoints); n < 1 || n > 4 ||
			fresh(last.Clusters, r.Clusters)+fresh(last.Listeners, r.Listeners)+fresh(last.Routes, r.Routes) > 0 {
			t.Errorf("step %d: %d assignments are made anew, and something beside them", i, n)
		}
		if at := next.ServicesAt(netip.MustParseAddr("10.0.0.9")); (len(at) == 1) != (i < 2) {
			t.Errorf("step %d: %d services are at the moved endpoint", i, len(at))
		}
		mesh, last = next, r
	}
	more := townService(7, "10.0.0.9")
	more.Ports = more.Ports[:1]
	if _, ok := mesh.With([]*model.Service{more}, nil); ok {
		t.Error("a change of ports is taken as one of endpoints")
	}
	if _, ok := mesh.With([]*model.Service{townService(1000, "10.0.0.9")}, nil); ok {
		t.Error("a new service is taken as a change of endpoints")
	}
}

// For rules, the short path gives the same result as the long one, for every view, and rebuilds one route
// configuration.
func TestRulesTakeTheShortPath(t *testing.T) {
	groups := town(100)
	groups["rule/nobody"] = model.Group{Objects: []*model.Object{{
		Meta: model.Meta{Kind: "VirtualService", Namespace: "default", Name: "nobody"},
		Spec: &networking.VirtualService{Hosts: []string{"nobody.test", "*.wild.test"}, Http: []*networking.HTTPRoute{
			{Route: []*networking.HTTPRouteDestination{to(townHost(1), "", 0)}},
		}},
	}}}
	mesh := model.New(inOrder(groups))
	views := []Outbound{
		townView(), ViewOf(proxies()["none"]).Outbound, ViewOf(proxies()["proxy"]).Outbound,
		ViewOf(proxies()["router"]).Outbound,
	}
	var last []*Resources
	for _, v := range views {
		last = append(last, BuildOutbound(mesh, v))
	}
	nobody := func(to ...*networking.HTTPRouteDestination) model.Group {
		return model.Group{Objects: []*model.Object{{
			Meta: groups["rule/nobody"].Objects[0].Meta,
			Spec: &networking.VirtualService{Hosts: []string{"nobody.test", "*.wild.test"}, Http: []*networking.HTTPRoute{{Route: to}}},
		}}}
	}
	for i, step := range []struct {
		key   string
		group model.Group
		want  int // rebuilt route configurations of the first view
	}{
		{"rule/10", townRule(10, "v2"), 1},
		{"rule/10", townRule(10, "v2"), 0},
		{"rule/20", townRule(20, "v2"), 1},
		{"rule/10", townRule(10, "v1"), 1},
		{"rule/nobody", nobody(to(townHost(2), "v1", 1), to(townHost(3), "", 1)), 1},
	} {
		groups[step.key] = step.group
		next, ok := mesh.With(nil, step.group.Objects)
		if !ok {
			t.Fatalf("step %d: a change of routes alone is not taken as one", i)
		}
		for j, v := range views {
			r := RebuildOutbound(last[j], next, v)
			if whole := BuildOutbound(model.New(inOrder(groups)), v); !sameResources(whole, r) {
				t.Errorf("step %d: the short path gives view %d something else", i, j)
			}
			if n := fresh(last[j].Routes, r.Routes); j == 0 && n != step.want {
				t.Errorf("step %d: %d route configurations are made anew, want %d", i, n, step.want)
			}
			if fresh(last[j].Clusters, r.Clusters)+fresh(last[j].Listeners, r.Listeners)+fresh(last[j].Endpoints, r.Endpoints) > 0 {
				t.Errorf("step %d: view %d: more than routes is made anew", i, j)
			}
			last[j] = r
		}
		mesh = next
	}
}

// fresh counts the messages of next that are not in last.
func fresh[T comparable](last, next []T) int {
	known := map[T]bool{}
	for _, m := range last {
		known[m] = true
	}
	n := 0
	for _, m := range next {
		if !known[m] {
			n++
		}
	}
	return n
}

// BenchmarkChange measures the cost of one change, from the changed group to the changed resources: of endpoints and of
// routes by the short path, of a service by the long one.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		for name, change := range map[string]func(i int) (string, model.Group){
			"endpoint": func(i int) (string, model.Group) {
				return "service/7", model.Group{Services: []*model.Service{townService(7, fmt.Sprintf("10.0.1.%d", i%250))}}
			},
			"service": func(i int) (string, model.Group) {
				one := townService(7, "10.0.0.1")
				one.Ports[1].Number = uint32(9001 + i%2)
				return "service/7", model.Group{Services: []*model.Service{one}}
			},
			"VirtualService": func(i int) (string, model.Group) { return "rule/10", townRule(10, []string{"v1", "v2"}[i%2]) },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				groups := town(n)
				mesh := model.New(inOrder(groups))
				last := BuildOutbound(mesh, townView())
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					key, group := change(i)
					groups[key] = group
					next, ok := mesh.With(group.Services, group.Objects)
					if ok == (name == "service") {
						b.Fatalf("the short path is taken: %v", ok)
					}
					if !ok {
						next = mesh.Next(inOrder(groups))
					}
					mesh, last = next, RebuildOutbound(last, next, townView())
				}
			})
		}
	}
}
