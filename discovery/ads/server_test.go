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

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestServeBeforeThePush(t *testing.T) {
	if code, text := run(t).open().ends(); code != codes.Unavailable || text != "not synced yet" {
		t.Errorf("got %s %q, want Unavailable, never an empty answer", code, text)
	}
}

func TestServeRefusesBrokenRequests(t *testing.T) {
	mode := adstest.Node()
	mode.Metadata.Fields["INTERCEPTION_MODE"] = structpb.NewStringValue("EBPF")
	tests := map[string]struct {
		request *discoveryv3.DiscoveryRequest
		want    string
	}{
		"no node":      {&discoveryv3.DiscoveryRequest{TypeUrl: content.ClusterType}, "no node.id"},
		"no type_url":  {&discoveryv3.DiscoveryRequest{Node: adstest.Node()}, "no type_url"},
		"mode":         {&discoveryv3.DiscoveryRequest{Node: mode, TypeUrl: content.ClusterType}, "want REDIRECT, TPROXY or NONE"},
		"malformed ID": {&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "x"}, TypeUrl: content.ClusterType}, "want 4"},
	}
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
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
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	s := r.open()
	for range 3 {
		s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: "type.googleapis.com/x.Secret"})
	}
	s.ask(content.ClusterType)
	if got := strings.Count(r.log.String(), "type is not served"); got != 1 {
		t.Errorf("logged %d times, want once:\n%s", got, r.log)
	}
}

func TestServePushesAndRecords(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	s := r.open()
	first := s.ask(content.ClusterType)
	endpoints := s.ask(content.EndpointType, adstest.Cluster("a"))
	s.ack(endpoints, adstest.Cluster("a"))
	s.ack(first)
	s.ask(content.ListenerType)

	r.Push(adstest.Mesh(2, "a"), model.Change{})
	changed := s.next(content.EndpointType)
	s.send(&discoveryv3.DiscoveryRequest{
		TypeUrl: content.EndpointType, VersionInfo: endpoints.VersionInfo, ResponseNonce: changed.Nonce,
		ResourceNames: []string{adstest.Cluster("a")}, ErrorDetail: refused("malformed IP address"),
	})
	adstest.Until(t, "the NACK", func() bool { return r.Clients()[0].Types[content.EDS].State == protocol.StateNacked })

	c := r.Clients()[0]
	if c.Node != adstest.NodeID || c.Peer == "" || c.Connected.IsZero() {
		t.Errorf("client %+v", c)
	}
	if got := []protocol.State{c.Types[content.CDS].State, c.Types[content.LDS].State, c.Types[content.RDS].State}; !slices.Equal(got, []protocol.State{protocol.StateSynced, protocol.StateStale, protocol.StateNotSent}) {
		t.Errorf("states of CDS, LDS, RDS: %v", got)
	}
	if e := c.Types[content.EDS]; e.Sent != changed.VersionInfo || e.Acked != endpoints.VersionInfo || e.Subscribed != 1 ||
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
	r.Push(adstest.Mesh(1, "a", "b"), model.Change{})
	old, young := r.open(), r.open()
	old.ack(old.ask(content.EndpointType, adstest.Cluster("a")), adstest.Cluster("a"))
	young.ack(young.ask(content.EndpointType, adstest.Cluster("a"), adstest.Cluster("b")), adstest.Cluster("a"), adstest.Cluster("b"))
	adstest.Until(t, "both ACKs", func() bool {
		clients := r.Clients()
		return len(clients) == 2 && clients[0].Types[content.EDS].State == protocol.StateSynced && clients[1].Types[content.EDS].State == protocol.StateSynced
	})
	r.Push(adstest.Mesh(2, "a", "b"), model.Change{})
	if got := len(old.next(content.EndpointType).Resources); got != 1 {
		t.Errorf("the old stream got %d resources, want its one", got)
	}
	if got := len(young.next(content.EndpointType).Resources); got != 2 {
		t.Errorf("the new stream got %d resources, want its two", got)
	}
	old.CloseSend()
	adstest.Until(t, "the old stream's end", func() bool { return len(r.Clients()) == 1 })
}

// Another replica, or this one after a restart: the version that the proxy names is the one that it would be sent.
func TestServeReconnectWithSameVersionIsSilent(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	had := r.open().ask(content.ClusterType)
	again := run(t)
	again.Push(adstest.Mesh(1, "a"), model.Change{})
	s := again.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType, VersionInfo: had.VersionInfo, ResponseNonce: "17"})
	s.ask(content.ListenerType) // the first response is of the next request
}

func TestServePushStormIsCoalesced(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	s := r.open()
	first := s.ask(content.EndpointType, adstest.Cluster("a"))
	for i := range 200 {
		r.Push(adstest.Mesh(2+i, "a"), model.Change{})
	}
	adstest.Until(t, "the pushes", func() bool { return r.Clients()[0].Types[content.EDS].State == protocol.StateStale })
	s.ack(first, adstest.Cluster("a"))
	newest := r.current.Load().Snapshot(content.Reader{View: adstest.View(t, "127.0.0.9")})[content.EDS].Find(adstest.Cluster("a"))
	if got := s.next(content.EndpointType); !bytes.HasSuffix(newest.Whole(), got.Resources[0].Value) {
		t.Errorf("the answer to an unanswered response brought %s, want the newest of 200 pushes", got.Resources[0].Value)
	}
}

func TestServeStopsWithOpenStreams(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	s := r.open()
	s.ask(content.ClusterType)
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
		r.Push(adstest.Mesh(1, names...), model.Change{})
		s := r.open()
		s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType})
		s.send(&discoveryv3.DiscoveryRequest{TypeUrl: content.EndpointType, ResourceNames: names})
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
