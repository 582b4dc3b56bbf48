package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	selector "istio.io/api/type/v1beta1"
)

// judgedWorld is a mesh with few names, so that objects affect each other's notes.
type judgedWorld struct {
	*rand.Rand
	groups map[string]Group
}

func (w judgedWorld) of(texts ...string) string { return texts[w.IntN(len(texts))] }
func (w judgedWorld) host() string {
	return w.of("a", "b", "c", "a.m", "b.n.svc.cluster.local", "a.example", "ab.example", "*.example", "web.service.test", "x.web.service.test", "*.n.svc.cluster.local")
}

func (w judgedWorld) labels() map[string]string {
	return map[string]string{"app": w.of("x", "y", "z"), "version": w.of("1", "2")}
}
func (w judgedWorld) some() bool { return w.IntN(2) == 0 }

func (w judgedWorld) exportTo() []string {
	return [][]string{nil, nil, {"."}, {"*"}, {"m"}, {"nowhere"}}[w.IntN(6)]
}

// spec returns a random specification of a kind.
func (w judgedWorld) spec(kind string) any {
	switch kind {
	case "VirtualService":
		v := &networking.VirtualService{Hosts: []string{w.host()}, ExportTo: w.exportTo()}
		if w.IntN(3) == 0 {
			v.Gateways = []string{w.of("g", "m/g", "mesh", "none")}
		}
		route := &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: w.host(), Subset: w.of("", "v1", "v2")}}}}
		if w.IntN(4) == 0 {
			route = &networking.HTTPRoute{Delegate: &networking.Delegate{Name: w.of("o1", "o2", "o3")}}
		}
		if v.Http = []*networking.HTTPRoute{route}; w.IntN(5) == 0 {
			v.Hosts = nil
		}
		return v
	case "DestinationRule":
		d := &networking.DestinationRule{Host: w.host(), ExportTo: w.exportTo()}
		if w.some() {
			d.Subsets = []*networking.Subset{{Name: w.of("v1", "v2"), Labels: w.labels()}}
		}
		switch w.IntN(5) {
		case 0:
			d.TrafficPolicy = &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL}}
		case 1:
			d.TrafficPolicy = &networking.TrafficPolicy{OutlierDetection: &networking.OutlierDetection{MaxEjectionPercent: 30}}
		case 2:
			d.WorkloadSelector = &selector.WorkloadSelector{MatchLabels: w.labels()}
		}
		return d
	case "Gateway":
		return &networking.Gateway{Selector: w.labels(), Servers: []*networking.Server{{Port: &networking.Port{Number: 80, Protocol: "HTTP"}, Hosts: []string{w.of("*", "a.example", "m/*")}}}}
	case "ServiceEntry":
		return &networking.ServiceEntry{
			Hosts: []string{w.of("a.example", "*.example", "ab.example")}, ExportTo: w.exportTo(), Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_STATIC,
			Ports:     []*networking.ServicePort{{Name: "p", Number: uint32(w.of("\x50", "\x51")[0]), Protocol: w.of("HTTP", "TCP")}, {Name: "q", Number: 443, Protocol: "HTTP"}},
			Endpoints: []*networking.WorkloadEntry{{Address: w.of("10.0.0.1", "10.0.0.2", "127.0.0.1"), Labels: w.labels()}},
		}
	case "WorkloadEntry":
		return &networking.WorkloadEntry{Address: w.of("10.0.0.1", "10.0.0.2", "10.0.0.3"), Labels: w.labels()}
	case "WorkloadGroup":
		return &networking.WorkloadGroup{Metadata: &networking.WorkloadGroup_ObjectMeta{Labels: w.labels()}, Template: &networking.WorkloadEntry{}}
	case "Sidecar":
		s := &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: []string{w.of("*/*", "./*", "m/a.m", "nowhere/*")}}}}
		if w.some() {
			s.Ingress = []*networking.IstioIngressListener{{Port: &networking.SidecarPort{Number: 80, Protocol: "HTTP", Name: "p"}}}
		}
		return s
	case "PeerAuthentication":
		return &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_Mode(1 + w.IntN(3))}}
	case "RequestAuthentication":
		return &security.RequestAuthentication{Selector: &selector.WorkloadSelector{MatchLabels: w.labels()}}
	default:
		return &meshconfig.MeshConfig{RootNamespace: w.of("istio-system", "m"), DefaultVirtualServiceExportTo: w.exportTo()}
	}
}

func (w judgedWorld) service() *Service {
	s := in(w.of("n", "m"), w.of("a.n.svc.cluster.local", "b.n.svc.cluster.local", "c.n.svc.cluster.local", "a.m.svc.cluster.local", "web.service.test"))
	s.Registry, s.Name, s.Resolution, s.Ports = "Kubernetes", s.Host, ResolutionStatic, []Port{{Name: "http", Number: 80, Protocol: HTTP}}
	if s.Host == "web.service.test" {
		s.Right = RightSuffix
	}
	if w.some() {
		s.Ports = append(s.Ports, Port{Name: "tcp", Number: 90, Protocol: TCP})
	}
	if w.IntN(4) == 0 {
		s.ExternalName = w.of("a.n.svc.cluster.local", "b.n.svc.cluster.local", "out.example")
	}
	if w.IntN(3) == 0 {
		s.ExportTo = w.exportTo()
	}
	if w.IntN(4) == 0 {
		s.Selector = w.labels()
	}
	s.Endpoints = w.endpoints()
	return s
}

func (w judgedWorld) endpoints() (out []Endpoint) {
	for range w.IntN(5) {
		out = append(out, Endpoint{Address: w.of("10.0.0.1", "10.0.0.2", "10.0.0.9"), Labels: w.labels()})
	}
	return out
}

// edit changes one group, and returns its key.
func (w judgedWorld) edit() string {
	kind := w.of("VirtualService", "VirtualService", "DestinationRule", "DestinationRule", "DestinationRule", "Gateway", "ServiceEntry", "ServiceEntry", "WorkloadEntry",
		"WorkloadGroup", "Sidecar", "PeerAuthentication", "RequestAuthentication", "MeshConfig", "service", "service", "service", "pod", "line", "endpoints", "endpoints")
	key := fmt.Sprint(kind, w.IntN(5))
	switch {
	case kind == "WorkloadGroup" && w.some() || kind != "line" && kind != "endpoints" && w.IntN(4) == 0:
		delete(w.groups, key)
	case kind == "endpoints": // of a service that is there
		key = "service" + key[len(kind):]
		if g := w.groups[key]; len(g.Services) > 0 {
			moved := *g.Services[0]
			moved.Endpoints = w.endpoints()
			w.groups[key] = Group{Services: []*Service{&moved}}
		}
	case kind == "service":
		w.groups[key] = Group{Services: []*Service{w.service()}}
	case kind == "pod":
		w.groups[key] = Group{Workloads: []*Workload{{Registry: "Kubernetes", Namespace: w.of("n", "m"), Name: key, Labels: w.labels(), Addresses: []string{w.of("10.0.0.1", "10.0.0.2")}}}}
	case kind == "line": // an object moves to another line
		for _, other := range slices.Sorted(maps.Keys(w.groups)) {
			if g := w.groups[other]; len(g.Objects) > 0 && w.IntN(5) == 0 {
				moved := *g.Objects[0]
				moved.Origin.Line++
				w.groups[other] = Group{Objects: []*Object{&moved}}
			}
		}
	default: // two of a kind may have one name, in two stores
		own := "o" + key[len(key)-1:]
		o := object(kind, w.of("n", "m"), w.of(own, own, own, own, own, "g"), 1+w.IntN(2), nil)
		if o.Spec, o.Origin.File = w.spec(kind), key; w.IntN(4) == 0 {
			o.Warnings = WarningsOf([]Warning{{"spec." + w.of("a", "b"), w.of("is old", "is new")}})
		}
		w.groups[key] = Group{Objects: []*Object{o}}
	}
	return key
}

func (w judgedWorld) proxies(all []Proxy) []Proxy {
	if w.some() {
		return all
	}
	var out []Proxy
	for i := range w.IntN(3) {
		out = append(out, Proxy{
			Stream: int64(w.Uint32() + 1), Name: fmt.Sprint("p", i), Namespace: w.of("n", "m"), Labels: w.labels(), Gateway: w.IntN(3) == 0, Certificate: w.some(),
			Binds: w.some(), Unprivileged: w.some(), Addresses: []netip.Addr{netip.MustParseAddr(w.of("10.0.0.1", "10.0.0.2"))},
		})
	}
	return out
}

// After any edit the notes that are made after those before are the notes that are made from nothing. A failure names the seed.
func TestNotesAfterAreNotes(t *testing.T) {
	kept, all := 0, 0
	for seed := range uint64(150) {
		w := judgedWorld{rand.New(rand.NewPCG(seed, 3)), map[string]Group{}}
		groups := func() func(func(Group) bool) {
			return func(yield func(Group) bool) {
				for _, key := range slices.Sorted(maps.Keys(w.groups)) {
					if !yield(w.groups[key]) {
						return
					}
				}
			}
		}
		for range 15 {
			w.edit()
		}
		m, judged, connected := New(groups()), (*Judged)(nil), []Proxy(nil)
		for step := range 30 {
			var edited []string
			for range 1 + w.IntN(2) {
				edited = append(edited, w.edit())
			}
			m, connected = m.Next(groups()), w.proxies(connected)
			var notes []Note
			notes, judged = m.NotesAfter(judged, connected...)
			if got, want := fmt.Sprint(notes), fmt.Sprint(New(groups()).Notes(connected...)); got != want {
				t.Fatalf("seed %d, step %d, after %q: notes are\n%s\nwant\n%s", seed, step, edited, got, want)
			}
			kept, all = kept+len(m.objects)-judged.looked, all+len(m.objects)
		}
	}
	if kept < all/6 { // half of the kinds are examined each time
		t.Errorf("of %d objects %d were not examined again: the comparison shows little", all, kept)
	}
}
