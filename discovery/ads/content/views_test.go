package content

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// A resource that did not change is not encoded again, and stays the same pointer.
func TestGenerationTakesOverWhatDidNotChange(t *testing.T) {
	var none *Views
	in := NewInterner()
	v := Reader{View: adstest.View(t, "127.0.0.9")}
	one := none.Follow(adstest.Mesh(1, "a", "b"), in)
	first := one.Snapshot(v)
	two := one.Follow(adstest.Mesh(1, "a", "b"), in)
	if two.Snapshot(v) != first {
		t.Error("the same mesh makes another snapshot")
	}
	three := two.Follow(adstest.Mesh(2, "a", "b"), in)
	third := three.Snapshot(v)
	if third[CDS] != first[CDS] || third[LDS] != first[LDS] || third[RDS] != first[RDS] || third[EDS] == first[EDS] {
		t.Error("an endpoint changed: want endpoints to be another set and all else the same")
	}
	if two.last.Load() != nil {
		t.Error("the generation before the last is held")
	}
}

// One message, one encoding: messages with the same pointer are not encoded again.
func TestEncoderKnowsMessages(t *testing.T) {
	g := (*Views)(nil).Follow(nil, NewInterner())
	m := adstest.Mesh(1, "a")
	e := encoder{views: g}
	build := xds.RebuildWithSibling(nil, nil, m, adstest.View(t, "127.0.0.9").Outbound)
	a := e.encode(build)
	a.resources = build
	n := g.Work.Encoded.Total()
	next := g.Follow(nil, NewInterner())
	b := encoder{views: next, old: a}.encode(build)
	if c := (encoder{views: next, sibling: a}).encode(build); c.sets[CDS] != a.sets[CDS] {
		t.Error("another view has another layer")
	}
	if again := next.Work.Encoded.Total(); n == 0 || again != 0 {
		t.Errorf("encoded %d, then %d, want none again", n, again)
	}
	if a.sets[CDS].Resources[0] != b.sets[CDS].Resources[0] {
		t.Error("the resource is another one")
	}
}

// A thousand proxies of one namespace differ in their own address only.
func TestSnapshotSharesEncoding(t *testing.T) {
	var none *Views
	g := none.Follow(adstest.Mesh(1, "a"), NewInterner())
	one, two := Reader{View: adstest.View(t, "127.0.0.1")}, Reader{View: adstest.View(t, "127.0.0.2")}
	a, again, b := g.Snapshot(one), g.Snapshot(one), g.Snapshot(two)
	if a != again {
		t.Error("one view was built twice")
	}
	if a[EDS] != b[EDS] || a[CDS].Find(adstest.Cluster("a")) != b[CDS].Find(adstest.Cluster("a")) {
		t.Error("two proxies of one namespace do not share what they call")
	}
}

// fleetMesh has services in namespaces, in turn, with ten endpoints each.
func fleetMesh(services, namespaces int, lastByte int) *model.Mesh {
	var list []*model.Service
	for i := range services {
		namespace := fmt.Sprintf("ns%d", i%namespaces)
		s := &model.Service{
			Right: model.RightFull, Host: fmt.Sprintf("service%d.%s.svc.cluster.local", i, namespace), Namespace: namespace, Resolution: model.ResolutionStatic,
			Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
		}
		for e := range 10 {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: fmt.Sprintf("10.%d.%d.%d", i/250, i%250, e+lastByte)})
		}
		list = append(list, s)
	}
	return model.New(slices.Values([]model.Group{{Services: list}}))
}

func readerIn(t *testing.T, namespace, certificate string) Reader {
	t.Helper()
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": namespace, "TLS_CLIENT_KEY": certificate})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := xds.ParseProxy(&corev3.Node{Id: "sidecar~192.168.0.9~p." + namespace + "~" + namespace + ".svc.cluster.local", Metadata: metadata})
	if err != nil {
		t.Fatal(err)
	}
	return Reader{View: xds.ViewOf(proxy)}
}

func heapMB() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// Views of many namespaces differ only in the short names of their routes: everything else is one resource set, and each
// virtual host of another namespace is one message. Views without any difference in their resources share everything.
// The same holds after a change.
func TestViewsShareWhatIsEqual(t *testing.T) {
	const services, namespaces = 40, 10
	var none *Views
	g := none.Follow(fleetMesh(services, namespaces, 1), NewInterner())
	var readers []Reader
	for i := range namespaces {
		readers = append(readers, readerIn(t, fmt.Sprint("ns", i), "/etc/key.pem"))
	}
	for i := range 10 {
		readers = append(readers, readerIn(t, "ns0", fmt.Sprint("/key", i)))
	}
	for round, wantLayers := range []string{"cds 1, eds 1, lds 1, rds 10", "cds 1, eds 1, lds 1, rds 10", "cds 1, eds 1, lds 1, rds 10"} {
		seen := [Kinds]map[*resourceSet]bool{}
		hosts := map[any]bool{}
		for _, r := range readers {
			h := g.outbound(r.Outbound)
			for k, l := range h.sets {
				if l != nil {
					if seen[k] == nil {
						seen[k] = map[*resourceSet]bool{}
					}
					seen[k][l] = true
				}
			}
			for _, c := range h.resources.Routes {
				for _, vh := range c.VirtualHosts {
					hosts[vh] = true
				}
			}
		}
		var got []string
		for _, k := range []Kind{CDS, EDS, LDS, RDS} {
			got = append(got, fmt.Sprintf("%s %d", k, len(seen[k])))
		}
		if text := strings.Join(got, ", "); text != wantLayers {
			t.Errorf("round %d: sets %s, want %s", round, text, wantLayers)
		}
		// A host is one message for most views, since only its own namespace uses its short name. The hosts of the view
		// that was made first are made again for each view.
		if n := len(hosts); n > 3*services {
			t.Errorf("round %d: %d virtual hosts in %d views, want at most %d", round, n, len(readers), 3*services)
		}
		g = g.Follow(fleetMesh(services, namespaces, 2+round), NewInterner())
	}
}

// Views that are requested at the same time share as much as those that are requested one after the other.
func TestViewsMadeAtOnceShare(t *testing.T) {
	const services, namespaces = 40, 10
	var none *Views
	g := none.Follow(fleetMesh(services, namespaces, 1), NewInterner())
	var all sync.WaitGroup
	for i := range 100 {
		r := readerIn(t, fmt.Sprint("ns", i%namespaces), "/etc/key.pem")
		all.Go(func() { g.Snapshot(r) })
	}
	all.Wait()
	sets := map[*resourceSet]bool{}
	for _, h := range g.built.outbound.all() {
		sets[h.sets[CDS]] = true
	}
	if len(sets) != 1 {
		t.Errorf("%d views have %d sets of clusters, want one", namespaces, len(sets))
	}
}

// Namespaces that nothing in the mesh distinguishes are one view, for any number of them that a client invents. A
// namespace to which something is exported is a separate view, as long as that is so.
func TestNamespacesOfNoConsequenceAreOneView(t *testing.T) {
	in := NewInterner()
	plain := fleetMesh(40, 10, 1)
	exported := func(to string) *model.Mesh {
		s := *plain.Services()[0]
		s.ExportTo = []string{to}
		return model.New(slices.Values([]model.Group{{Services: append([]*model.Service{&s}, plain.Services()[1:]...)}}))
	}
	var g *Views
	for _, step := range []struct {
		name string
		mesh *model.Mesh
		want int
	}{
		{"a hundred namespaces", plain, 10 + 1},
		{"a service is exported to one of them", exported("invented7"), 10 + 2},
		{"to none of them", exported("ns3"), 10 + 1},
	} {
		g = g.Follow(step.mesh, in)
		for i := range 100 {
			g.Snapshot(readerIn(t, fmt.Sprint("invented", i), "/etc/key.pem"))
			g.Snapshot(readerIn(t, fmt.Sprint("ns", i%10), "/etc/key.pem"))
		}
		if n := len(g.built.outbound.keys()); n != step.want {
			t.Errorf("%s: %d views, want %d", step.name, n, step.want)
		}
	}
}

// BenchmarkViews measures the cost of a further view, in bytes of heap, at 1,000 services in 100 namespaces.
func BenchmarkViews(b *testing.B) {
	for b.Loop() {
		t := &testing.T{}
		var none *Views
		g := none.Follow(fleetMesh(1000, 100, 1), NewInterner())
		encode := func(r Reader) {
			for _, s := range g.Snapshot(r)[:SDS] {
				whole(s).Lists[0].Pieces(SotW)
			}
		}
		encode(readerIn(t, "ns0", "/etc/key.pem"))
		before := heapMB()
		for i := range 99 {
			encode(readerIn(t, fmt.Sprint("ns", i+1), "/etc/key.pem"))
		}
		namespaces := heapMB()
		for i := range 100 {
			encode(readerIn(t, "ns0", fmt.Sprint("/key", i)))
		}
		b.ReportMetric(before, "MB/one")
		b.ReportMetric((namespaces-before)/99, "MB/namespace")
		b.ReportMetric((heapMB()-namespaces)/100, "MB/certificate")
		runtime.KeepAlive(g)
	}
}
