package content

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
	"github.com/pilotlight/pilotlight/node"
)

// world is a small mesh that is edited at random: it has few names, so that objects affect each other.
type world struct {
	random *rand.Rand
	groups map[string]model.Group
	line   int
}

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7)), groups: map[string]model.Group{}}
	for range 12 {
		w.edit()
	}
	return w
}

// inOrder yields the groups by key, as discovery does.
func (w *world) inOrder(yield func(model.Group) bool) {
	for _, key := range slices.Sorted(maps.Keys(w.groups)) {
		if !yield(w.groups[key]) {
			return
		}
	}
}

// next edits up to three groups and makes the mesh of them as discovery does: by the short path if possible.
func (w *world) next(m *model.Mesh) (next *model.Mesh, edited []string) {
	var services []*model.Service
	var objects []*model.Object
	short := true
	before := maps.Clone(w.groups)
	for range 1 + w.random.IntN(3) {
		edited = append(edited, w.edit())
	}
	if w.flip(30) {
		edited = append(edited, w.shift()...)
	}
	slices.Sort(edited)
	edited = slices.Compact(edited)
	for _, key := range edited {
		group := w.groups[key]
		short = short && !group.Empty() && group.Covers(before[key])
		for _, s := range group.Services {
			if !slices.Contains(before[key].Services, s) {
				services = append(services, s)
			}
		}
		objects = append(objects, group.Objects...)
	}
	if short {
		if next, ok := m.With(services, objects); ok {
			return next, append(edited, "by the short path")
		}
	}
	return m.Next(w.inOrder), edited
}

// edit puts, changes or deletes one group, and returns its key.
func (w *world) edit() string {
	kinds := []func() *model.Object{
		w.entry, w.entry, w.entry, w.entry, w.rule, w.rule, w.rule, w.policy, w.policy, w.sidecar, w.workload, w.workload,
		w.gateway, w.gateway, w.settings, w.networks,
	}
	if keys := slices.Sorted(maps.Keys(w.groups)); len(keys) > 0 && w.flip(40) {
		key := pick(w, keys...)
		if w.adjust(key) {
			return key
		}
	}
	o := kinds[w.random.IntN(len(kinds))]()
	key := o.Key()
	if _, known := w.groups[key]; known && w.flip(35) {
		delete(w.groups, key)
		return key
	}
	w.groups[key] = model.Group{Objects: []*model.Object{o}}
	return key
}

// shift moves all objects down, as an edit above them does, and returns their keys.
func (w *world) shift() (keys []string) {
	w.line++
	for key, group := range w.groups {
		moved := *group.Objects[0]
		moved.Origin.Line += w.line
		w.groups[key] = model.Group{Objects: []*model.Object{&moved}, Services: group.Services}
		keys = append(keys, key)
	}
	return keys
}

// adjust makes a change that the short path supports: endpoints of an entry, or HTTP routes of a rule. It returns false
// for others.
func (w *world) adjust(key string) bool {
	was := w.groups[key].Objects[0]
	o := *was
	o.Spec = proto.Clone(was.Spec.(proto.Message))
	switch spec := o.Spec.(type) {
	case *networking.ServiceEntry:
		spec.Endpoints = w.endpoints()
	case *networking.VirtualService:
		spec.Http = w.routes()
	case *networking.WorkloadEntry:
		o.Labels = w.labels()
	default:
		return false
	}
	w.groups[key] = model.Group{Objects: []*model.Object{&o}}
	return true
}

func (w *world) flip(percent int) bool { return w.random.IntN(100) < percent }

func pick[T any](w *world, of ...T) T { return of[w.random.IntN(len(of))] }

// some returns each value of of with equal probability, and sometimes none.
func some[T any](w *world, of ...T) (out []T) {
	for _, x := range of {
		if w.flip(30) {
			out = append(out, x)
		}
	}
	return out
}

func (w *world) object(kind, name string, spec any) *model.Object {
	namespaces := []string{"default", "default", "shop"}
	if kind == "Sidecar" || kind == "DestinationRule" {
		namespaces = append(namespaces, "istio-system")
	}
	w.line++
	return &model.Object{Spec: spec, Meta: model.Meta{
		Kind: kind, Name: name, Namespace: pick(w, namespaces...), Origin: model.Origin{File: "f", Line: w.line},
		Created: time.Unix(int64(len(name)+len(kind)), 0),
	}}
}

func (w *world) host() string {
	return pick(w, "a.default.svc.cluster.local", "b.default.svc.cluster.local", "c.shop.svc.cluster.local", "d.test",
		"*.test", "trace.default.svc.cluster.local", "collect.default.svc.cluster.local")
}

func (w *world) labels() map[string]string {
	return pick(w, nil, map[string]string{"app": "a"}, map[string]string{"app": "b"},
		map[string]string{"app": "a", "version": "v1"}, map[string]string{"version": "v2"})
}

func (w *world) exportTo() []string {
	return pick(w, nil, nil, nil, []string{"."}, []string{"*"}, []string{"shop"}, []string{"friend"}, []string{"~"})
}

func (w *world) address() string { return fmt.Sprintf("10.0.0.%d", 1+w.random.IntN(6)) }

func (w *world) endpoints() (out []*networking.WorkloadEntry) {
	for range w.random.IntN(4) {
		e := &networking.WorkloadEntry{
			Address: w.address(), Labels: w.labels(), Locality: pick(w, "", "", "west/1", "east/1/a"),
			Network: pick(w, "", "", "", "far"), Weight: pick[uint32](w, 0, 0, 3),
		}
		if w.flip(20) {
			e.Ports = map[string]uint32{"p80": 8080}
		}
		out = append(out, e)
	}
	return out
}

func (w *world) entry() *model.Object {
	host := w.host()
	hosts := []string{host}
	if w.flip(15) {
		hosts = append(hosts, w.host())
	}
	spec := &networking.ServiceEntry{
		Hosts: slices.Compact(hosts), ExportTo: w.exportTo(), Addresses: some(w, "10.96.0.1", "10.96.0.2", "10.97.0.0/16"),
		Resolution: pick(w, networking.ServiceEntry_STATIC, networking.ServiceEntry_STATIC, networking.ServiceEntry_DNS,
			networking.ServiceEntry_NONE),
	}
	for _, number := range some[uint32](w, 80, 81, 9411, 9000) {
		spec.Ports = append(spec.Ports, &networking.ServicePort{
			Number: number, Name: fmt.Sprintf("p%d", number), Protocol: pick(w, "HTTP", "HTTP", "TCP", "GRPC", "", "TLS"),
		})
	}
	switch {
	case w.flip(30):
		spec.WorkloadSelector = &networking.WorkloadSelector{Labels: w.labels()}
	case spec.Resolution != networking.ServiceEntry_NONE:
		spec.Endpoints = w.endpoints()
	}
	return w.object("ServiceEntry", host[:1]+pick(w, "", "", "2"), spec)
}

func (w *world) destination() *networking.Destination {
	d := &networking.Destination{Host: w.host(), Subset: pick(w, "", "", "v1")}
	if w.flip(40) {
		d.Port = &networking.PortSelector{Number: pick[uint32](w, 80, 81, 9000)}
	}
	return d
}

func (w *world) routes() (out []*networking.HTTPRoute) {
	for range 1 + w.random.IntN(3) {
		route := &networking.HTTPRoute{Name: pick(w, "", "x")}
		if w.flip(70) {
			route.Match = []*networking.HTTPMatchRequest{{
				Uri:  &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: pick(w, "/a", "/b", "/")}},
				Port: pick[uint32](w, 0, 0, 80, 81), SourceNamespace: pick(w, "", "", "", "", "shop", "friend"),
				Gateways: pick(w, nil, nil, []string{"mesh"}, []string{"default/g"}),
			}}
			if w.flip(15) {
				route.Match[0].SourceLabels = w.labels()
			}
		}
		for range 1 + w.random.IntN(2) {
			route.Route = append(route.Route, &networking.HTTPRouteDestination{Destination: w.destination(), Weight: 1})
		}
		if w.flip(10) {
			route.Mirror = w.destination()
		}
		if w.flip(10) {
			route.Headers = &networking.Headers{Request: &networking.Headers_HeaderOperations{
				Set: map[string]string{"host": "one", ":authority": "two", "Host": "three", "x": "y"},
			}}
		}
		out = append(out, route)
	}
	return out
}

func (w *world) rule() *model.Object {
	spec := &networking.VirtualService{
		Hosts: []string{w.host()}, ExportTo: w.exportTo(), Http: w.routes(),
		Gateways: pick(w, nil, nil, []string{"mesh", "g"}, []string{"default/g"}),
	}
	switch {
	case w.flip(15):
		spec.Hosts, spec.Gateways = nil, nil // a delegate
		return w.object("VirtualService", "child", spec)
	case w.flip(15):
		spec.Http[0].Delegate, spec.Http[0].Route = &networking.Delegate{Name: "child"}, nil
	case w.flip(10):
		spec.Http = nil
		spec.Tcp = []*networking.TCPRoute{{Route: []*networking.RouteDestination{{Destination: w.destination()}}}}
	}
	return w.object("VirtualService", pick(w, "r", "rr", "rrr"), spec)
}

func (w *world) policy() *model.Object {
	spec := &networking.DestinationRule{Host: w.host(), ExportTo: w.exportTo()}
	if w.flip(70) {
		spec.Subsets = []*networking.Subset{{Name: "v1", Labels: map[string]string{"version": "v1"}}}
	}
	if w.flip(70) {
		spec.TrafficPolicy = &networking.TrafficPolicy{
			OutlierDetection: &networking.OutlierDetection{MinHealthPercent: int32(w.random.IntN(100))},
			LoadBalancer: &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{
				ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{
					HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: pick(w, "x", "y")},
				},
			}},
		}
	}
	if w.flip(20) {
		spec.WorkloadSelector = nil
	}
	return w.object("DestinationRule", pick(w, "p", "pp", "ppp"), spec)
}

func (w *world) sidecar() *model.Object {
	spec := &networking.Sidecar{}
	if w.flip(40) {
		spec.WorkloadSelector = &networking.WorkloadSelector{Labels: w.labels()}
	}
	if w.flip(60) {
		spec.Egress = []*networking.IstioEgressListener{{Hosts: some(w, "./*", "shop/*", "*/d.test", "*/a.default.svc.cluster.local")}}
		if w.flip(20) {
			spec.Egress = append([]*networking.IstioEgressListener{{
				Port: &networking.SidecarPort{Number: 9000, Protocol: pick(w, "HTTP", "TCP"), Name: "own"}, Hosts: []string{"*/*"},
			}}, spec.Egress...)
		}
	}
	if w.flip(40) {
		spec.Ingress = []*networking.IstioIngressListener{{
			Port: &networking.SidecarPort{Number: 80, Protocol: pick(w, "HTTP", "TCP", ""), Name: "in"}, DefaultEndpoint: "127.0.0.1:8080",
		}}
	}
	if w.flip(40) {
		spec.OutboundTrafficPolicy = &networking.OutboundTrafficPolicy{Mode: pick(w, networking.OutboundTrafficPolicy_REGISTRY_ONLY,
			networking.OutboundTrafficPolicy_ALLOW_ANY)}
		if w.flip(40) {
			spec.OutboundTrafficPolicy.EgressProxy = w.destination()
		}
	}
	return w.object("Sidecar", pick(w, "s", "ss"), spec)
}

func (w *world) workload() *model.Object {
	o := w.object("WorkloadEntry", pick(w, "w", "ww", "www"), &networking.WorkloadEntry{
		Address: w.address(), Labels: pick(w, nil, map[string]string{"version": "v1"}),
	})
	o.Labels = w.labels()
	return o
}

func (w *world) gateway() *model.Object {
	return w.object("Gateway", pick(w, "g", "gg"), &networking.Gateway{
		Selector: pick(w, nil, map[string]string{"app": "gateway"}),
		Servers: some(w, &networking.Server{
			Port: &networking.Port{Number: pick[uint32](w, 80, 8080), Protocol: pick(w, "HTTP", "TCP"), Name: "x"},
			Bind: pick(w, "", "", "10.0.0.9"), Hosts: []string{pick(w, "*", "./d.test", "*.test")},
		}, &networking.Server{
			Port: &networking.Port{Number: 15443, Protocol: "TLS", Name: "between"}, Hosts: []string{"*"},
			Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_AUTO_PASSTHROUGH},
		}),
	})
}

func (w *world) settings() *model.Object {
	tracer := func(name, host string) *meshconfig.MeshConfig_ExtensionProvider {
		return &meshconfig.MeshConfig_ExtensionProvider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_Zipkin{
			Zipkin: &meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider{Service: host, Port: 9411},
		}}
	}
	spec := &meshconfig.MeshConfig{
		ExtensionProviders: []*meshconfig.MeshConfig_ExtensionProvider{
			tracer("one", "trace.default.svc.cluster.local"), tracer("two", "collect.default.svc.cluster.local"),
		},
		DefaultProviders:              &meshconfig.MeshConfig_DefaultProviders{Tracing: some(w, "one", "two", "one")},
		EnableTracing:                 w.flip(20),
		AccessLogFile:                 pick(w, "", "", "/dev/stdout"),
		DefaultServiceExportTo:        w.exportTo(),
		DefaultVirtualServiceExportTo: w.exportTo(),
		ProtocolDetectionTimeout:      pick(w, nil, durationpb.New(time.Second)),
	}
	if w.flip(30) {
		spec.OutboundTrafficPolicy = &meshconfig.MeshConfig_OutboundTrafficPolicy{
			Mode: meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY,
		}
	}
	if w.flip(30) {
		spec.LocalityLbSetting = &networking.LocalityLoadBalancerSetting{
			Enabled: wrapperspb.Bool(w.flip(80)), FailoverPriority: some(w, "version", "app"),
		}
	}
	o := w.object("MeshConfig", "mesh", spec)
	o.Namespace = ""
	return o
}

func (w *world) networks() *model.Object {
	network := func(address string, ranges ...string) *meshconfig.Network {
		out := &meshconfig.Network{Gateways: []*meshconfig.Network_IstioNetworkGateway{{
			Gw: &meshconfig.Network_IstioNetworkGateway_Address{Address: address}, Port: 15443,
		}}}
		for _, r := range ranges {
			out.Endpoints = append(out.Endpoints, &meshconfig.Network_NetworkEndpoints{
				Ne: &meshconfig.Network_NetworkEndpoints_FromCidr{FromCidr: r},
			})
		}
		return out
	}
	o := w.object("MeshNetworks", "networks", &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
		"far":   network("192.0.2.1", pick(w, "10.0.0.0/29", "10.0.0.4/31")),
		"other": network("192.0.2.2", "10.0.0.4/30"),
	}})
	o.Namespace = ""
	return o
}

// worldViews returns views of proxies of every kind.
func worldViews() map[string]xds.View {
	of := func(role node.Role, ip, namespace string, mode node.InterceptionMode, port int, labels map[string]string) xds.View {
		return xds.ViewOf(xds.Proxy{
			ID: node.ID{Role: role, IP: ip, Name: "x." + namespace, Domain: namespace + ".svc.cluster.local"},
			Metadata: node.Metadata{
				Namespace: namespace, Labels: labels, InterceptionMode: mode, HTTPProxyPort: port, InstanceIPs: []string{"10.0.0.2"},
				Extra: map[string]any{"NETWORK": "near"},
			},
			Locality: model.Locality{Region: "west", Zone: "1"},
		})
	}
	a, b := map[string]string{"app": "a", "version": "v1"}, map[string]string{"app": "b"}
	return map[string]xds.View{
		"sidecar":       of(node.Sidecar, "10.0.0.1", "default", node.Redirect, 0, a),
		"other sidecar": of(node.Sidecar, "10.0.0.3", "default", node.TProxy, 0, b),
		"shop":          of(node.Sidecar, "10.0.0.2", "shop", node.Redirect, 15080, b),
		"friend":        of(node.Sidecar, "10.0.0.4", "friend", node.Redirect, 0, b), // only rules name its namespace, and
		"nobody":        of(node.Sidecar, "10.0.0.5", "nobody", node.Redirect, 0, b), // nothing names this one
		"none":          of(node.Sidecar, "10.0.0.1", "default", node.None, 0, nil),
		"proxy":         of(node.Sidecar, "10.0.0.1", "shop", node.None, 15080, a),
		"gateway":       of(node.Router, "10.0.0.6", "default", "", 0, map[string]string{"app": "gateway"}),
	}
}
