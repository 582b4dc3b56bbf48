package xds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// settlement is a mesh to which services come, which change and go: few hosts, ports and addresses, so that they meet.
type settlement struct {
	random *rand.Rand
	groups map[string]model.Group
}

func newSettlement(seed uint64) *settlement {
	s := &settlement{rand.New(rand.NewPCG(seed, 3)), map[string]model.Group{}}
	for range 25 {
		s.edit()
	}
	return s
}

func chosen[T any](s *settlement, of ...T) T { return of[s.random.IntN(len(of))] }

func (s *settlement) host() string {
	return chosen(s, "a", "b", "c", "d", "e", "f") + chosen(s, ".default.svc.cluster.local", ".default.svc.cluster.local", ".shop.svc.cluster.local")
}

// edit puts, changes or removes a group, and returns its key.
func (s *settlement) edit() string {
	host := s.host()
	switch s.random.IntN(12) {
	case 0, 1, 2:
		key := "service/" + host
		if s.groups[key].Empty() || s.random.IntN(3) == 0 {
			s.groups[key] = model.Group{Services: []*model.Service{s.service(host)}}
		} else {
			delete(s.groups, key)
		}
		return key
	case 3:
		key := "rule/" + host
		if s.groups[key] = townRule(0, "v1"); s.random.IntN(3) == 0 {
			delete(s.groups, key)
			return key
		}
		o := s.groups[key].Objects[0]
		o.Name = host
		spec := o.Spec.(*networking.VirtualService)
		spec.Hosts = []string{chosen(s, host, host, "*.shop.svc.cluster.local", "only.rules.test")}
		spec.Http[0].Route[0].Destination = &networking.Destination{Host: s.host(), Subset: chosen(s, "", "v1")}
		if s.random.IntN(3) == 0 {
			spec.Http[0].Match = []*networking.HTTPMatchRequest{{SourceNamespace: "shop"}}
		}
		if s.random.IntN(3) == 0 {
			spec.Tcp = []*networking.TCPRoute{{Route: []*networking.RouteDestination{{Destination: &networking.Destination{Host: s.host()}}}}}
		}
		return key
	case 4:
		key := "policy/" + host
		if delete(s.groups, key); s.random.IntN(2) == 0 {
			d := versions(host)
			d.TrafficPolicy = &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
				LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{
					HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: chosen(s, "x", "y")},
				}},
			}}
			s.groups[key] = model.Group{Objects: []*model.Object{{Meta: model.Meta{Kind: "DestinationRule", Namespace: "default", Name: host}, Spec: d}}}
		}
		return key
	default: // endpoints
		key := "service/" + host
		if s.groups[key].Empty() {
			return key
		}
		one := *s.groups[key].Services[0]
		one.Endpoints = s.endpoints(one.Headless)
		s.groups[key] = model.Group{Services: []*model.Service{&one}}
		return key
	}
}

func (s *settlement) service(host string) *model.Service {
	namespace := "default"
	if len(host) == len("a.shop.svc.cluster.local") {
		namespace = "shop"
	}
	out := &model.Service{
		Right: model.RightFull, Registry: "Kubernetes", Host: host, Namespace: namespace, Name: host[:1], Resolution: model.ResolutionStatic,
		ExportTo: chosen(s, nil, nil, nil, []string{"."}),
	}
	if out.Headless = s.random.IntN(3) == 0; out.Headless {
		out.Resolution = model.ResolutionNone
	} else {
		out.Addresses = chosen(s, nil, []string{"10.96.0." + fmt.Sprint(1+s.random.IntN(4))}, []string{"10.97.0.0/16"})
	}
	for _, p := range []model.Port{
		httpPort(80),
		{Name: "tcp", Number: 9000, Protocol: model.TCP},
		{Name: "any", Number: 7000, Protocol: model.Unknown},
		{Name: "tls", Number: 443, Protocol: model.TLS},
		{Name: "any", Number: 80, Protocol: model.Unknown},
	} {
		if s.random.IntN(2) == 0 && !slices.ContainsFunc(out.Ports, func(o model.Port) bool { return o.Number == p.Number }) {
			out.Ports = append(out.Ports, p)
		}
	}
	out.Endpoints = s.endpoints(out.Headless)
	return out
}

func (s *settlement) endpoints(headless bool) (out []model.Endpoint) {
	for range s.random.IntN(4) {
		e := at(fmt.Sprint("10.0.0.", 1+s.random.IntN(6)), chosen(s, "v1", "v2"))
		e.Health = chosen(s, model.HealthHealthy, model.HealthHealthy, model.HealthUnhealthy)
		if headless && s.random.IntN(2) == 0 {
			e.Hostname = fmt.Sprint("pod-", s.random.IntN(2))
		}
		out = append(out, e)
	}
	return out
}

// next edits the mesh, and makes the next one as discovery does.
func (s *settlement) next(m *model.Mesh) *model.Mesh {
	before := map[string]model.Group{}
	for range 1 + s.random.IntN(2) {
		was := maps.Clone(s.groups)
		key := s.edit()
		if _, known := before[key]; !known {
			before[key] = was[key]
		}
	}
	var services []*model.Service
	var objects []*model.Object
	for key, was := range before {
		now := s.groups[key]
		if !now.Covers(was) || !was.Covers(now) {
			return m.Next(inOrder(s.groups))
		}
		for _, one := range now.Services {
			if !slices.Contains(was.Services, one) {
				services = append(services, one)
			}
		}
		objects = append(objects, now.Objects...)
	}
	if next, ok := m.With(services, objects); ok {
		return next
	}
	return m.Next(inOrder(s.groups))
}

func settlementViews() map[string]Outbound {
	of := func(role node.Role, namespace string, mode node.InterceptionMode, port int, extra map[string]any) Outbound {
		return ViewOf(Proxy{
			ID:       node.ID{Role: role, IP: "10.9.9.9", Name: "a." + namespace, Domain: namespace + ".svc.cluster.local"},
			Metadata: node.Metadata{Namespace: namespace, InterceptionMode: mode, HTTPProxyPort: port, Extra: extra},
		}).Outbound
	}
	dns := map[string]any{"DNS_CAPTURE": "true", "DNS_FILTER": "true"}
	return map[string]Outbound{
		"sidecar": of(node.Sidecar, "default", node.Redirect, 0, nil),
		"shop":    of(node.Sidecar, "shop", node.Redirect, 15080, nil),
		"dns":     of(node.Sidecar, "default", node.Redirect, 0, dns),
		"none":    of(node.Sidecar, "default", node.None, 0, nil),
		"gateway": of(node.Router, "default", "", 0, nil),
	}
}

// Resources that are made of those of the mesh before, and of a sibling's, equal those that are made from nothing: after
// services came and went, and endpoints of headless ones and of others changed.
func TestRebuiltEqualsBuilt(t *testing.T) {
	for seed := range uint64(40) {
		s := newSettlement(seed)
		mesh := model.New(inOrder(s.groups))
		last, views := map[string]*Resources{}, settlementViews()
		for step := range 25 {
			whole := model.New(inOrder(s.groups))
			var sibling *Resources
			for _, name := range slices.Sorted(maps.Keys(views)) {
				view := views[name]
				now, want := RebuildWithSibling(last[name], sibling, mesh, view), BuildOutbound(whole, view)
				if !sameResources(want, now) {
					t.Fatalf("seed %d, step %d: %s: the resources are others", seed, step, name)
				}
				if diff := cmp.Diff(want.Names(view), now.Names(view), cmp.AllowUnexported(Name{})); diff != "" {
					t.Fatalf("seed %d, step %d: %s: names (-from nothing +rebuilt):\n%s", seed, step, name, diff)
				}
				last[name], sibling = now, now
			}
			mesh = s.next(mesh)
		}
	}
}

// A service that comes or goes, one whose rule changes in a way that With does not take, and an endpoint of a headless one make
// as much anew among 2,000 services as among 200, in each view, and most of it once for all views.
func TestAServiceCostsWhatChanged(t *testing.T) {
	headless := func(address string) model.Group {
		s := townService(5, address)
		s.Addresses, s.Headless = nil, true
		s.Endpoints = s.Endpoints[:1]
		return model.Group{Services: []*model.Service{s}}
	}
	views := func() []Outbound {
		sidecar, proxied, elsewhere := townView(), townView(), townView()
		proxied.HTTPProxyPort = 15080
		elsewhere.Namespace, elsewhere.Domain = "shop", "shop.svc.cluster.local"
		return []Outbound{sidecar, proxied, elsewhere}
	}()
	for _, step := range []struct {
		name string
		edit func(groups map[string]model.Group, n int)
		want string // for each view: services with new clusters, new virtual hosts, new listeners
	}{
		{"a service comes", func(groups map[string]model.Group, n int) {
			groups["service/new"] = model.Group{Services: []*model.Service{townService(n+1, "10.0.0.1")}}
		}, "[{1 1 1} {0 1 0} {0 1 0}]"},
		{"a service goes", func(groups map[string]model.Group, _ int) { delete(groups, "service/7") }, "[{0 0 0} {0 0 0} {0 0 0}]"},
		{"a headless service moves", func(groups map[string]model.Group, _ int) { groups["service/5"] = headless("10.0.0.9") }, "[{1 0 1} {0 0 0} {0 0 0}]"},
		{"a rule for connections", func(groups map[string]model.Group, _ int) {
			groups["rule/10"] = townRule(10, "v1")
			spec := groups["rule/10"].Objects[0].Spec.(*networking.VirtualService)
			spec.Tcp = []*networking.TCPRoute{{Route: []*networking.RouteDestination{{Destination: &networking.Destination{Host: townHost(11)}}}}}
		}, "[{0 1 1} {0 2 1} {0 1 1}]"},
		{"a policy", func(groups map[string]model.Group, _ int) {
			rule := versions(townHost(20))
			rule.TrafficPolicy = &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
				LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{
					HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: "x"},
				}},
			}}
			groups["policy/20"] = model.Group{Objects: []*model.Object{{
				Meta: model.Meta{Kind: "DestinationRule", Namespace: "default", Name: "20"}, Spec: rule,
			}}}
		}, "[{1 1 1} {0 2 0} {0 1 0}]"},
	} {
		t.Run(step.name, func(t *testing.T) {
			for _, n := range []int{200, 2000} {
				groups := town(n)
				groups["service/5"] = headless("10.0.0.8")
				mesh := wideTown(groups)
				last := rebuilt(make([]*Resources, len(views)), mesh, views)
				step.edit(groups, n)
				mesh = mesh.Next(inOrder(groups))
				last = rebuilt(last, mesh, views)
				var got []made
				for i, r := range last {
					if got = append(got, r.made); !sameResources(BuildOutbound(wideTown(groups), views[i]), r) {
						t.Errorf("%d services: view %d is not what is made from nothing", n, i)
					}
				}
				if fmt.Sprint(got) != step.want {
					t.Errorf("%d services: made anew are %v, want %s", n, got, step.want)
				}
			}
		})
	}
}

// rebuilt returns the resources of all views of a mesh; the first is the sibling of the others.
func rebuilt(last []*Resources, m *model.Mesh, views []Outbound) []*Resources {
	out := make([]*Resources, len(views))
	for i, v := range views {
		v = v.In(m)
		var sibling *Resources
		if i > 0 {
			sibling = out[0]
		}
		out[i] = RebuildWithSibling(last[i], sibling, m, v)
	}
	return out
}

// Names are in the order of their bytes, and the first of each stays: also where one run's names lie between those of another.
func TestSortByName(t *testing.T) {
	for list, want := range map[string]string{
		"":                          "",
		"o|80||b o|80||a":           "o|80||a o|80||b",
		"o|80||a o|9||a o|80|v1|a":  "o|80|v1|a o|80||a o|9||a",
		"o|80||a o|80||a black":     "black o|80||a",
		"z a o|1||x o_.1_._x o|1||": "a o_.1_._x o|1|| o|1||x z",
		"o|1||a|b o|1||a o|1||b":    "o|1||a o|1||a|b o|1||b",
	} {
		type one struct {
			name string
			at   int
		}
		var in []one
		for i, name := range strings.Fields(list) {
			in = append(in, one{name, i})
		}
		var got []string
		for i, m := range sortByName(in, func(m one) string { return m.name }) {
			got = append(got, m.name)
			if first := slices.IndexFunc(in, func(o one) bool { return o.name == m.name }); in[first] != m {
				t.Errorf("%s: %d is not the first of its name", list, i)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: sorted are %v, want %s", list, got, want)
		}
	}
}

// BenchmarkAddedService measures the cost of a service that comes or goes, from its group to the resources of all views: at
// 10,000 services with one view, and at 1,000 services with views of 100 namespaces. cpu-ms/op is the processor time of the
// process, which does not depend on what else the machine does.
func BenchmarkAddedService(b *testing.B) {
	for _, size := range []struct{ services, views int }{{10_000, 1}, {1_000, 100}} {
		b.Run(fmt.Sprintf("services=%d/views=%d", size.services, size.views), func(b *testing.B) {
			groups := town(size.services)
			var views []Outbound
			for i := range size.views {
				v := townView()
				if i > 0 {
					v.Namespace = fmt.Sprint("n", i)
					v.Domain = v.Namespace + ".svc.cluster.local"
				}
				views = append(views, v)
			}
			mesh := wideTown(groups)
			last := rebuilt(make([]*Resources, len(views)), mesh, views)
			b.ReportAllocs()
			before := spent()
			for i := 0; b.Loop(); i++ {
				groups["service/new"] = model.Group{Services: []*model.Service{townService(size.services+1, "10.0.0.1")}}
				if i%2 == 1 {
					delete(groups, "service/new")
				}
				mesh = mesh.Next(inOrder(groups))
				last = rebuilt(last, mesh, views)
			}
			b.ReportMetric(float64(spent()-before)/1e6/float64(b.N), "cpu-ms/op")
		})
	}
}

// spent returns the processor time of the process in nanoseconds.
func spent() int64 {
	var use unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &use)
	return use.Utime.Nano() + use.Stime.Nano()
}

// wideTown returns a mesh without bounds of what a namespace gives to others, which 2,000 services of one pass.
func wideTown(groups map[string]model.Group) *model.Mesh {
	wide := model.Bounds{1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e9, 1e9, 1e9}
	return model.NewOf(model.Settings{Domain: model.DefaultDomain, Bounds: &wide}, inOrder(groups))
}
