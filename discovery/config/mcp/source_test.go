package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	mcpv1 "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	long      = 20 * time.Second
	entryType = "networking.istio.io/v1/ServiceEntry"
)

// istiod answers as Istio's API generator does: every type, and all types again when something changes.
type istiod struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	address string
	mu      sync.Mutex
	away    bool
	silent  map[string]bool // types that are not answered
	objects map[string]*anypb.Any
	changed chan struct{}
	refused []string // errors of clients' NACKs
	nodes   []string // of clients
}

func startIstiod(t *testing.T) *istiod {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &istiod{address: l.Addr().String(), objects: map[string]*anypb.Any{}, silent: map[string]bool{}, changed: make(chan struct{})}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, i)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return i
}

func (i *istiod) change(do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	do()
	close(i.changed)
	i.changed = make(chan struct{})
}

func (i *istiod) put(name string, resource *anypb.Any) {
	i.change(func() { i.objects[name] = resource })
}

func (i *istiod) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	requests, failed := make(chan *discoveryv3.DiscoveryRequest), make(chan error, 1)
	go func() {
		for {
			r, err := s.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- r:
			case <-s.Context().Done():
				return
			}
		}
	}()
	asked := map[string]bool{}
	i.mu.Lock()
	changed := i.changed
	i.mu.Unlock()
	for n := 0; ; n++ {
		i.mu.Lock()
		away := i.away
		i.mu.Unlock()
		if away {
			return status.Error(codes.Unavailable, "away")
		}
		var send []string
		select {
		case <-s.Context().Done():
			return s.Context().Err()
		case err := <-failed:
			return err
		case r := <-requests:
			if id := r.GetNode().GetId(); id != "" {
				i.mu.Lock()
				i.nodes = append(i.nodes, id)
				i.mu.Unlock()
			}
			if r.ErrorDetail != nil {
				i.mu.Lock()
				i.refused = append(i.refused, r.TypeUrl+": "+r.ErrorDetail.Message)
				i.mu.Unlock()
			}
			if asked[r.TypeUrl] {
				continue
			}
			asked[r.TypeUrl] = true
			send = []string{r.TypeUrl}
		case <-changed:
			i.mu.Lock()
			changed = i.changed // before the objects are read: a later change is another one
			i.mu.Unlock()
			for url := range asked {
				send = append(send, url)
			}
		}
		for _, url := range send {
			i.mu.Lock()
			silent, out := i.silent[url], &discoveryv3.DiscoveryResponse{TypeUrl: url, VersionInfo: "always the same", Nonce: fmt.Sprint(n)}
			for _, name := range sortedNames(i.objects) {
				if strings.HasPrefix(name, url+" ") {
					out.Resources = append(out.Resources, i.objects[name])
				}
			}
			i.mu.Unlock()
			if silent {
				continue
			}
			if err := s.Send(out); err != nil {
				return err
			}
		}
	}
}

func sortedNames(m map[string]*anypb.Any) (out []string) {
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func packed(m proto.Message) *anypb.Any {
	out, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return out
}

func entry(name, address string) *anypb.Any {
	return packed(&mcpv1.Resource{
		Metadata: &mcpv1.Metadata{Name: "default/" + name},
		Body: packed(&networking.ServiceEntry{
			Hosts: []string{name + ".test"}, Resolution: networking.ServiceEntry_STATIC,
			Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}}, Endpoints: []*networking.WorkloadEntry{{Address: address}},
		}),
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestContract(t *testing.T) {
	i := startIstiod(t)
	sourcetest.Run(t, func(*testing.T) sourcetest.Registry {
		i.change(func() { i.away = false; clear(i.objects) })
		return sourcetest.Registry{
			Lose: func(names ...string) {
				i.change(func() {
					for _, name := range names {
						delete(i.objects, entryType+" "+name)
					}
				})
			},
			Source: New(i.address, nil, 200*time.Millisecond, quiet()),
			Host:   func(name string) string { return name + ".test" },
			Put:    func(name, address string) { i.put(entryType+" "+name, entry(name, address)) },
			Delete: func(name string) { i.change(func() { delete(i.objects, entryType+" "+name) }) },
			Spoil:  func(name string) { i.put(entryType+" "+name, entry(name, "not an address")) },
			Break:  func() { i.change(func() { i.away = true }) },
			Mend:   func() { i.change(func() { i.away = false }) },
			Touch:  func() { i.change(func() {}) },
		}
	})
}

// follow runs a source until it has synced, and returns its groups and its end.
func follow(t *testing.T, s *Source) (groups map[string]model.Group, updates <-chan model.Update, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan model.Update), make(chan error, 1)
	go func() { done <- s.Run(ctx, out) }()
	stop = func() error { cancel(); return <-done }
	groups = map[string]model.Group{}
	for deadline := time.After(long); ; {
		select {
		case u := <-out:
			for key, g := range u.Groups {
				groups[key] = g
			}
			if u.Synced {
				return groups, out, stop
			}
		case err := <-done:
			t.Fatalf("it ended with %v", err)
		case <-deadline:
			t.Fatal("it does not sync")
		}
	}
}

// ends returns the error of a run and ignores its updates.
func ends(t *testing.T, s *Source) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	out, done := make(chan model.Update), make(chan error, 1)
	go func() { done <- s.Run(ctx, out) }()
	for {
		select {
		case <-out:
		case err := <-done:
			return err
		}
	}
}

func TestResources(t *testing.T) {
	newer := &networking.ServiceEntry{
		Hosts: []string{"newer.test"}, Resolution: networking.ServiceEntry_STATIC, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		Endpoints: []*networking.WorkloadEntry{{Address: "10.0.0.1"}},
	}
	newer.Ports[0].ProtoReflect().SetUnknown([]byte{0xf8, 0x3f, 1}) // field 1023
	in := map[string]*anypb.Any{
		"a good one":       entry("good", "10.0.0.1"),
		"an invalid one":   entry("invalid", "here"),
		"no resource":      packed(&networking.ServiceEntry{}),
		"half a resource":  {TypeUrl: "type.googleapis.com/istio.mcp.v1alpha1.Resource", Value: []byte{0x0a, 0x7f, 1}},
		"no namespace":     packed(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: "good"}}),
		"a long name":      packed(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: "a/b/c"}}),
		"of another type":  packed(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: "default/gateway"}, Body: packed(&networking.Gateway{})}),
		"without a body":   packed(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: "default/nothing"}}),
		"half a body":      packed(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: "default/half"}, Body: &anypb.Any{TypeUrl: "type.googleapis.com/istio.networking.v1alpha3.ServiceEntry", Value: []byte{0x0a, 0x7f}}}),
		"an upper-case":    packed(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: "default/Upper"}, Body: packed(newer)}),
		"of a newer API":   packed(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: "default/newer", Version: "7", Labels: map[string]string{"a": "b"}}, Body: packed(newer)}),
		"the good one two": entry("good", "10.0.0.2"),
	}
	names := sortedNames(in)
	var resources []*anypb.Any
	for _, name := range names {
		resources = append(resources, in[name])
	}
	st := newState("xds://tested:15010", nil)
	groups, warnings := st.apply(entryType, resources)
	at := func(name string) string { return unnamed(entryType, slices.Index(names, name)) }
	for key, want := range map[string]string{
		at("no resource"):              `is of type "type.googleapis.com/istio.networking.v1alpha3.ServiceEntry", want istio.mcp.v1alpha1.Resource`,
		at("half a resource"):          "read resource",
		at("no namespace"):             `metadata.name is "good", want NAMESPACE/NAME`,
		at("a long name"):              `metadata.name is "a/b/c", want NAMESPACE/NAME`,
		"ServiceEntry/default/invalid": "spec.endpoints[0].address",
		"ServiceEntry/default/gateway": `body is of type "type.googleapis.com/istio.networking.v1alpha3.Gateway", want istio.networking.v1alpha3.ServiceEntry`,
		"ServiceEntry/default/nothing": `body is of type ""`,
		"ServiceEntry/default/half":    "read body",
		"ServiceEntry/default/Upper":   "metadata.name",
		"ServiceEntry/default/good":    "is sent more than once",
	} {
		if got := groups[key].Faults; len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s has the faults %q, want %q", key, got, want)
		}
	}
	if got := groups["ServiceEntry/default/good"].Objects; len(got) != 1 {
		t.Errorf("of the one that is sent twice: %v", got)
	}
	good := groups["ServiceEntry/default/newer"]
	if len(good.Objects) != 1 || good.Objects[0].Labels["a"] != "b" ||
		good.Objects[0].Origin.String() != "cluster xds://tested:15010, version 7" || !good.Objects[0].Origin.Record.Relayed {
		t.Errorf("the good one is %+v", good)
	}
	if !slices.ContainsFunc(warnings, func(p config.Problem) bool { return p.Object == "ServiceEntry default/newer" && p.Path == "spec.ports" }) {
		t.Errorf("the warnings are %v", warnings)
	}
	if kept := good.Objects[0].Warnings.All(); len(kept) != 1 || kept[0].Path != "spec.ports" {
		t.Errorf("the good one is served with the warnings %q", kept)
	}
	if again, _ := st.apply(entryType, resources); len(again) > 1 { // the object that is sent twice
		t.Errorf("nothing changed, and it tells %v", again)
	}
}

// An empty answer at the beginning of a run is not applied at once: the server may have just started.
func TestAnEmptyFirstAnswerDoesNotWipe(t *testing.T) {
	i := startIstiod(t)
	i.put(entryType+" a", entry("a", "10.0.0.1"))
	s := New(i.address, nil, time.Hour, quiet())
	_, _, stop := follow(t, s)
	i.change(func() { i.away = true })
	_ = stop()
	i.change(func() { i.away = false; clear(i.objects) })

	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan model.Update), make(chan error, 1)
	go func() { done <- s.Run(ctx, out) }()
	select {
	case u := <-out:
		t.Fatalf("it tells %+v, while its server has nothing", u)
	case <-time.After(300 * time.Millisecond):
	}
	i.put(entryType+" b", entry("b", "10.0.0.1"))
	for synced := false; !synced; {
		select {
		case u := <-out:
			synced = u.Synced
		case <-time.After(long):
			t.Fatal("it does not sync though its server has something again")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	// An operator says that they are gone: the answer is believed, and not judged again.
	_, _, stop = follow(t, s)
	_ = stop()
	i.change(func() { clear(i.objects) })
	ctx, cancel = context.WithCancel(t.Context())
	go func() { done <- s.Run(ctx, out) }()
	for deadline := time.After(long); ; {
		lost, objects, since, until := s.Held()
		if objects == 1 && lost == "all 1 objects of kind ServiceEntry" && until.Sub(since).Round(time.Second) == time.Hour {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("it says that it holds %q, %d", lost, objects)
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.Release()
	select {
	case u := <-out:
		if _, objects, _, _ := s.Held(); !u.Synced || !u.Certain || objects != 0 {
			t.Errorf("released it tells %+v, and holds %d", u, objects)
		}
	case <-time.After(long):
		t.Fatal("it is released, and does not sync")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	// Objects that remain absent are removed in the end.
	i.change(func() { clear(i.objects) })
	s = New(i.address, nil, 200*time.Millisecond, quiet())
	if groups, _, stop := follow(t, s); len(groups) > 0 || stop() != nil {
		t.Errorf("it tells %v", groups)
	}
}

func TestServersThatAreNone(t *testing.T) {
	t.Run("one that does not answer for a type", func(t *testing.T) {
		i := startIstiod(t)
		i.silent[entryType] = true
		for patience := 300 * time.Millisecond; ; patience *= 4 {
			s := New(i.address, nil, 0, quiet())
			s.patience = patience
			err := ends(t, s)
			if err != nil && strings.Contains(err.Error(), fmt.Sprintf(`no answer within %s for ["%s"]`, patience, entryType)) {
				break
			}
			// It names the other types too if they have not come yet.
			if err == nil || !strings.Contains(err.Error(), "no answer within") || 4*patience > long {
				t.Fatalf("it ends with %v", err)
			}
		}
	})
	t.Run("one that says nothing", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := New(l.Addr().String(), nil, 0, quiet())
		s.patience = 300 * time.Millisecond
		if err := ends(t, s); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("it ends with %v", err)
		}
	})
	t.Run("one that answers with 100 MB", func(t *testing.T) {
		i := startIstiod(t)
		large := packed(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: strings.Repeat("x", 1<<20)}})
		i.change(func() {
			for n := range 100 {
				i.objects[fmt.Sprint(entryType, " ", n)] = large
			}
		})
		if err := ends(t, New(i.address, nil, 0, quiet())); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("it ends with %v", err)
		}
	})
	t.Run("one that is not there", func(t *testing.T) {
		if err := ends(t, New("127.0.0.1:1", nil, 0, quiet())); err == nil || !strings.Contains(err.Error(), "read configuration from xds://127.0.0.1:1") {
			t.Errorf("it ends with %v", err)
		}
	})
	t.Run("one that sends what nobody asked for", func(t *testing.T) {
		s := New(startRogue(t), nil, 0, quiet())
		err := ends(t, s)
		if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "nobody asked for this type") {
			t.Errorf("it ends with %v", err)
		}
	})
}

// rogue sends a type that was not requested, and ends the stream with its client's error text.
type rogue struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func startRogue(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, rogue{})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return l.Addr().String()
}

func (rogue) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if err := s.Send(&discoveryv3.DiscoveryResponse{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Nonce: "rogue"}); err != nil {
		return err
	}
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if r.ResponseNonce == "rogue" {
			return status.Error(codes.Aborted, r.GetErrorDetail().GetMessage())
		}
	}
}

// The server is told a node of the mesh's domain.
func TestNode(t *testing.T) {
	for domain, want := range map[model.Domain]string{"": "cluster.local", "corp.example": "corp.example"} {
		i := startIstiod(t)
		s := New(i.address, nil, 0, quiet())
		s.Domain = domain
		_, _, stop := follow(t, s)
		if err := stop(); err != nil {
			t.Error(err)
		}
		i.mu.Lock()
		if len(i.nodes) != 1 || i.nodes[0] != "sidecar~127.0.0.1~pilotlight-discovery.istio-system~istio-system.svc."+want {
			t.Errorf("%q: got %q", domain, i.nodes)
		}
		i.mu.Unlock()
	}
}
