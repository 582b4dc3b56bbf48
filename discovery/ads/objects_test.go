package ads

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
	mcpv1 "istio.io/api/mcp/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	entryType = "networking.istio.io/v1/ServiceEntry"
	ruleType  = "networking.istio.io/v1/DestinationRule"
)

func controlPlane() *corev3.Node {
	return &corev3.Node{Id: "any", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"GENERATOR": structpb.NewStringValue("api")}}}
}

func entryOf(name, address string) *model.Object {
	return &model.Object{
		Meta: model.Meta{Kind: "ServiceEntry", Namespace: "default", Name: name, Labels: map[string]string{"of": "test"}},
		Spec: &networking.ServiceEntry{
			Hosts: []string{name + ".test"}, Resolution: networking.ServiceEntry_STATIC, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
			Endpoints: []*networking.WorkloadEntry{{Address: address}},
		},
	}
}

func meshOfObjects(objects ...*model.Object) *model.Mesh {
	return model.New(slices.Values([]model.Group{{Objects: objects}}))
}

// runExposed runs a server that serves objects to the tests' own connections, which have no address.
func runExposed(t *testing.T) *running {
	l := testLimits()
	l.ExposeObjects = true
	return runWith(t, l, nil)
}

// objectsIn reads a response: name to version.
func objectsIn(t *testing.T, r *discoveryv3.DiscoveryResponse) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, a := range r.Resources {
		var resource mcpv1.Resource
		if err := a.UnmarshalTo(&resource); err != nil {
			t.Fatal(err)
		}
		out[resource.Metadata.Name] = resource.Metadata.Version
	}
	return out
}

// A control plane gets an answer for every type, as Istio's client needs: with any nonce that it invents, and also for
// a type without objects. Later it gets the types whose objects change.
func TestObjects(t *testing.T) {
	r := runExposed(t)
	relayed := entryOf("relayed", "10.0.0.1")
	relayed.Origin.Record = &model.Record{Cluster: "xds://elsewhere:15010", Relayed: true}
	settings := &model.Object{Meta: model.Meta{Kind: "MeshConfig", Name: "default"}, Spec: &meshconfig.MeshConfig{TrustDomain: "mesh"}}
	one, two := entryOf("one", "10.0.0.1"), entryOf("two", "10.0.0.1")
	r.Push(meshOfObjects(one, two, relayed, settings), model.Change{})
	s := r.open()
	for _, url := range []string{ruleType, "security.istio.io/v1/AuthorizationPolicy", "networking.istio.io/v1alpha3/ServiceEntry", "core/v1alpha1/MeshConfig", entryType} {
		s.send(&discoveryv3.DiscoveryRequest{Node: controlPlane(), TypeUrl: url, ResponseNonce: "2026-01-01T00:00:00Z"})
	}
	if got := s.next(ruleType); len(got.Resources) > 0 {
		t.Errorf("rules: %v", got)
	}
	s.next("security.istio.io/v1/AuthorizationPolicy")
	if got := s.next("networking.istio.io/v1alpha3/ServiceEntry"); len(got.Resources) > 0 {
		t.Errorf("of another version: %v", got)
	}
	var config meshconfig.MeshConfig
	if got := s.next("core/v1alpha1/MeshConfig"); len(got.Resources) != 1 || got.Resources[0].UnmarshalTo(&config) != nil || config.TrustDomain != "mesh" {
		t.Errorf("settings: %v", got)
	}
	first := s.next(entryType)
	before := objectsIn(t, first)
	if got := slices.Sorted(maps.Keys(before)); !slices.Equal(got, []string{"default/one", "default/two"}) {
		t.Errorf("entries: %q", got)
	}
	s.ack(first)
	s.send(&discoveryv3.DiscoveryRequest{TypeUrl: entryType, ResponseNonce: first.Nonce, ErrorDetail: &statuspb.Status{Message: "I do not like it"}})
	adstest.Until(t, "the log has the refusal", func() bool { return strings.Contains(r.log.String(), "I do not like it") })

	r.Push(meshOfObjects(one, two, settings), model.Change{}) // no object in it is served
	r.Push(meshOfObjects(one, entryOf("two", "10.0.0.2"), settings), model.Change{})
	after := objectsIn(t, s.next(entryType))
	if after["default/one"] != before["default/one"] || after["default/two"] == before["default/two"] {
		t.Errorf("versions were %v, and are %v", before, after)
	}
	r.Push(meshOfObjects(settings), model.Change{})
	if got := s.next(entryType); len(got.Resources) != 0 {
		t.Errorf("after all are gone: %v", got)
	}
	if len(r.Clients()) != 0 {
		t.Errorf("it is listed among proxies: %v", r.Clients())
	}
}

func TestObjectsAreForFew(t *testing.T) {
	refused := func(t *testing.T, s *peerStream) {
		t.Helper()
		s.send(&discoveryv3.DiscoveryRequest{Node: controlPlane(), TypeUrl: entryType})
		code, text := s.ends()
		if code != codes.PermissionDenied {
			t.Errorf("the stream ends with %s: %s", code, text)
		}
	}
	t.Run("in plaintext from elsewhere", func(t *testing.T) {
		r := run(t)
		r.Push(meshOfObjects(entryOf("one", "10.0.0.1")), model.Change{})
		refused(t, r.open())
	})
	t.Run("in plaintext from this host", func(t *testing.T) {
		r := run(t)
		r.Push(meshOfObjects(entryOf("one", "10.0.0.1")), model.Change{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Serve(ctx, l) }()
		client, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		s := r.openOn(client)
		s.send(&discoveryv3.DiscoveryRequest{Node: controlPlane(), TypeUrl: entryType})
		if got := s.next(entryType); len(got.Resources) != 1 {
			t.Errorf("got %v", got)
		}
		client.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("with a certificate", func(t *testing.T) {
		a := newAuthority(t)
		secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")), nil)
		a.check(err)
		r := runWith(t, testLimits(), secure)
		r.Push(meshOfObjects(entryOf("one", "10.0.0.1")), model.Change{})
		open := func(id string) *peerStream {
			client := r.dial(a.client(nil, a.issue(3, id)))
			t.Cleanup(func() { client.Close() })
			return r.openOn(client)
		}
		refused(t, open("spiffe://cluster.local/ns/default/sa/app"))
		refused(t, open("spiffe://elsewhere/ns/istio-system/sa/pilot"))
		s := open("spiffe://cluster.local/ns/istio-system/sa/pilot")
		s.send(&discoveryv3.DiscoveryRequest{Node: controlPlane(), TypeUrl: entryType})
		if got := s.next(entryType); len(got.Resources) != 1 {
			t.Errorf("got %v", got)
		}
	})
}

func TestObjectsAreBounded(t *testing.T) {
	r := runExposed(t)
	r.Push(meshOfObjects(), model.Change{})
	s := r.open()
	go func() {
		for i := range 2 * maxObjectTypes {
			_ = s.Send(&discoveryv3.DiscoveryRequest{Node: controlPlane(), TypeUrl: strings.Repeat("t", i+1)})
		}
	}()
	if code, _ := s.ends(); code != codes.ResourceExhausted {
		t.Errorf("it ends with %s", code)
	}
}

// A control plane that reads nothing is disconnected, and does not delay updates for other clients.
func TestObjectsOfAClientThatDoesNotRead(t *testing.T) {
	l := testLimits()
	l.ExposeObjects, l.SendTimeout = true, 200*time.Millisecond
	r := runWith(t, l, nil)
	var objects []*model.Object
	for i := range 2000 {
		o := entryOf("large", "10.0.0.1")
		o.Name += strings.Repeat("x", i%200) + "." + time.Duration(i).String()
		o.Labels = map[string]string{"large": strings.Repeat("x", 2000)}
		objects = append(objects, o)
	}
	r.Push(meshOfObjects(objects...), model.Change{})
	s := r.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: controlPlane(), TypeUrl: entryType})
	adstest.Until(t, "it is cut off", func() bool { return strings.Contains(r.log.String(), "control plane cut off") })
	adstest.Until(t, "its stream has ended", func() bool { return strings.Contains(r.log.String(), "control plane disconnected") })
	r.Push(meshOfObjects(), model.Change{})
}

// A push that comes between the opening of a control plane's stream and its first request does not wait for it.
func TestNoPushWaitsForAControlPlane(t *testing.T) {
	r := runExposed(t)
	r.Push(meshOfObjects(entryOf("one", "10.0.0.1")), model.Change{})
	s := r.open()
	adstest.Until(t, "the stream is listed", func() bool { return len(r.all()) == 1 })
	r.Push(meshOfObjects(entryOf("one", "10.0.0.2")), model.Change{})
	if all := r.Pushes(); all[len(all)-1].Waiting != 1 {
		t.Fatalf("pushes %+v", all)
	}
	s.send(&discoveryv3.DiscoveryRequest{Node: controlPlane(), TypeUrl: entryType})
	s.next(entryType)
	if all := r.Pushes(); all[len(all)-1].Waiting != 0 {
		t.Errorf("the last of these waits: %+v", all)
	}
}
