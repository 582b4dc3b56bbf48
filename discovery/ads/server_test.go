package ads

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestServeBeforeThePush(t *testing.T) {
	if code, text := run(t).open().ends(); code != codes.Unavailable || text != "not synced yet" {
		t.Errorf("got %s %q, want Unavailable, never an empty answer", code, text)
	}
}

func TestServeRefusesBrokenRequests(t *testing.T) {
	mode := envoyNode()
	mode.Metadata.Fields["INTERCEPTION_MODE"] = structpb.NewStringValue("EBPF")
	tests := map[string]struct {
		request *discoveryv3.DiscoveryRequest
		want    string
	}{
		"no node":      {&discoveryv3.DiscoveryRequest{TypeUrl: clusterType}, "no node.id"},
		"no type_url":  {&discoveryv3.DiscoveryRequest{Node: envoyNode()}, "no type_url"},
		"mode":         {&discoveryv3.DiscoveryRequest{Node: mode, TypeUrl: clusterType}, "want REDIRECT, TPROXY or NONE"},
		"malformed ID": {&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "x"}, TypeUrl: clusterType}, "want 4"},
	}
	r := run(t)
	r.Push(meshOf(1, "a"), model.Change{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := r.open()
			s.send(test.request)
			if code, text := s.ends(); code != codes.InvalidArgument || !strings.Contains(text, test.want) {
				t.Errorf("got %s %q, want InvalidArgument with %q", code, text, test.want)
			}
		})
	}
}

func TestServeUnknownTypeDoesNotKillTheStream(t *testing.T) {
	r := run(t)
	r.Push(meshOf(1, "a"), model.Change{})
	s := r.open()
	for range 3 {
		s.send(&discoveryv3.DiscoveryRequest{Node: envoyNode(), TypeUrl: "type.googleapis.com/x.Secret"})
	}
	s.ask(clusterType)
	if got := strings.Count(r.log.String(), "type is not served"); got != 1 {
		t.Errorf("logged %d times, want once:\n%s", got, r.log)
	}
}

func TestServePushesAndRecords(t *testing.T) {
	r := run(t)
	r.Push(meshOf(1, "a"), model.Change{})
	s := r.open()
	first := s.ask(clusterType)
	endpoints := s.ask(endpointType, cluster("a"))
	s.ack(endpoints, cluster("a"))
	s.ack(first)
	s.ask(listenerType)

	r.Push(meshOf(2, "a"), model.Change{})
	changed := s.next(endpointType)
	s.send(&discoveryv3.DiscoveryRequest{
		TypeUrl: endpointType, VersionInfo: endpoints.VersionInfo, ResponseNonce: changed.Nonce,
		ResourceNames: []string{cluster("a")}, ErrorDetail: refused("malformed IP address"),
	})
	until(t, "the NACK", func() bool { return r.Clients()[0].Types[eds].State == StateNacked })

	c := r.Clients()[0]
	if c.Node != nodeID || c.Peer == "" || c.Connected.IsZero() {
		t.Errorf("client %+v", c)
	}
	if got := []State{c.Types[cds].State, c.Types[lds].State, c.Types[rds].State}; !slices.Equal(got, []State{StateSynced, StateStale, StateNotSent}) {
		t.Errorf("states of CDS, LDS, RDS: %v", got)
	}
	if e := c.Types[eds]; e.Sent != changed.VersionInfo || e.Acked != endpoints.VersionInfo || e.Subscribed != 1 ||
		e.Nack.Text != "malformed IP address" || e.Nonce != changed.Nonce {
		t.Errorf("EDS %+v, last NACK %+v", e, e.Nack)
	}
	if got := strings.Count(r.log.String(), "response refused"); got != 1 || !strings.Contains(r.log.String(), "malformed IP address") {
		t.Errorf("NACK logged %d times, want once with its text:\n%s", got, r.log)
	}
}

// In a handover two Envoys of one node are connected, each with its own subscriptions.
func TestServeStateBelongsToTheStream(t *testing.T) {
	r := run(t)
	r.Push(meshOf(1, "a", "b"), model.Change{})
	old, young := r.open(), r.open()
	old.ack(old.ask(endpointType, cluster("a")), cluster("a"))
	young.ack(young.ask(endpointType, cluster("a"), cluster("b")), cluster("a"), cluster("b"))
	until(t, "both ACKs", func() bool {
		clients := r.Clients()
		return len(clients) == 2 && clients[0].Types[eds].State == StateSynced && clients[1].Types[eds].State == StateSynced
	})
	r.Push(meshOf(2, "a", "b"), model.Change{})
	if got := len(old.next(endpointType).Resources); got != 1 {
		t.Errorf("the old stream got %d resources, want its one", got)
	}
	if got := len(young.next(endpointType).Resources); got != 2 {
		t.Errorf("the new stream got %d resources, want its two", got)
	}
	old.CloseSend()
	until(t, "the old stream's end", func() bool { return len(r.Clients()) == 1 })
}

// Another replica, or this one after a restart: the version that the proxy names is the one that it would be sent.
func TestServeReconnectWithSameVersionIsSilent(t *testing.T) {
	r := run(t)
	r.Push(meshOf(1, "a"), model.Change{})
	had := r.open().ask(clusterType)
	again := run(t)
	again.Push(meshOf(1, "a"), model.Change{})
	s := again.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: envoyNode(), TypeUrl: clusterType, VersionInfo: had.VersionInfo, ResponseNonce: "17"})
	s.ask(listenerType) // the first response is of the next request
}

func TestServePushStormIsCoalesced(t *testing.T) {
	r := run(t)
	r.Push(meshOf(1, "a"), model.Change{})
	s := r.open()
	first := s.ask(endpointType, cluster("a"))
	for i := range 200 {
		r.Push(meshOf(2+i, "a"), model.Change{})
	}
	until(t, "the pushes", func() bool { return r.Clients()[0].Types[eds].State == StateStale })
	s.ack(first, cluster("a"))
	newest := r.current.Load().snapshot(reader{View: viewAt(t, "127.0.0.9")})[eds].find(cluster("a"))
	if got := s.next(endpointType); !bytes.HasSuffix(newest.whole(), got.Resources[0].Value) {
		t.Errorf("the answer to an unanswered response brought %s, want the newest of 200 pushes", got.Resources[0].Value)
	}
}

func TestServeStopsWithOpenStreams(t *testing.T) {
	r := run(t)
	r.Push(meshOf(1, "a"), model.Change{})
	s := r.open()
	s.ask(clusterType)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if code, text := s.ends(); code != codes.Unavailable {
		t.Errorf("the stream ended with %s %q, want Unavailable, which sends Envoy elsewhere", code, text)
	}
}

// The stream's sender is blocked in the middle of a response, so only closing the connection ends it.
func TestServeStopsWithClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		var names []string
		for i := range 2000 {
			names = append(names, fmt.Sprint("service", i))
		}
		r.Push(meshOf(1, names...), model.Change{})
		s := r.open()
		s.send(&discoveryv3.DiscoveryRequest{Node: envoyNode(), TypeUrl: clusterType})
		s.send(&discoveryv3.DiscoveryRequest{TypeUrl: endpointType, ResourceNames: names})
		synctest.Wait()
		start := time.Now()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > r.limits.Shutdown {
			t.Errorf("stopped after %s, want at most %s", took, r.limits.Shutdown)
		}
	})
}

// A thousand proxies of one namespace differ in their own address only.
func TestSnapshotSharesEncoding(t *testing.T) {
	var none *generation
	g := none.follow(meshOf(1, "a"), model.Change{}, newInterner())
	one, two := reader{View: viewAt(t, "127.0.0.1")}, reader{View: viewAt(t, "127.0.0.2")}
	a, again, b := g.snapshot(one), g.snapshot(one), g.snapshot(two)
	if a != again {
		t.Error("one view was built twice")
	}
	if a[eds] != b[eds] || a[cds].find(cluster("a")) != b[cds].find(cluster("a")) {
		t.Error("two proxies of one namespace do not share what they call")
	}
}
