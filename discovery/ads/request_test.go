package ads

import (
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// making makes s the snapshot that the tests' node gets, once made is called.
func (r *running) making(s *content.Snapshot) (made func()) {
	r.t.Helper()
	g := r.current.Load().follow(adstest.Mesh(1), model.Change{}, r.names)
	began, gate := make(chan struct{}), make(chan struct{})
	go g.Snapshots.Get(content.Reader{View: adstest.View(r.t, "127.0.0.9")}, func() *content.Snapshot {
		close(began)
		<-gate
		return s
	})
	<-began
	r.publish(g)
	return func() { close(gate) }
}

// only returns the only stream, once it has kept n requests.
func (r *running) only(n int) (st *stream) {
	r.t.Helper()
	adstest.Until(r.t, "the requests to be read", func() bool {
		all := r.all()
		if len(all) != 1 {
			return false
		}
		st = all[0]
		st.mu.Lock()
		defer st.mu.Unlock()
		return len(st.admission.kept) == n
	})
	return st
}

// While the view of a stream is made, its requests are read, the pages do not wait for it, and it does not count as
// slow. Then they are answered in order, and nothing of the wait is left.
func TestRequestsAreReadWhileTheViewIsMade(t *testing.T) {
	r := run(t)
	made := r.making(state("a=1 b=1", "a=1 b=1", "l=1", "r=1"))
	s := r.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType})
	s.send(&discoveryv3.DiscoveryRequest{TypeUrl: content.EndpointType, ResourceNames: []string{"a", "b"}})
	s.send(&discoveryv3.DiscoveryRequest{TypeUrl: content.ListenerType})
	st := r.only(3)
	clients := r.Clients()
	if len(clients) != 1 || clients[0].Node != adstest.NodeID || len(clients[0].Types) != 0 {
		t.Errorf("the page shows %+v", clients)
	}
	if _, err := r.Dump(adstest.NodeID); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("a dump of nothing: %v", err)
	}
	if proxies := r.Proxies(); len(proxies) != 1 || len(r.readers()) != 1 {
		t.Errorf("%d proxies, %d readers, want one", len(proxies), len(r.readers()))
	}
	if st.cutIfSlow(time.Now().Add(time.Hour), time.Minute); st.cut {
		t.Error("the stream is cut off for being slow")
	}
	made()
	clusters := s.next(content.ClusterType)
	endpoints := s.next(content.EndpointType)
	s.ack(clusters)
	s.ack(endpoints, "a", "b")
	s.ack(s.next(content.ListenerType))
	adstest.Until(t, "the wait to be over", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return !st.admission.waits && st.admission.kept == nil && st.session.Reached()
	})
}

// A stream that waits for its view is read so far that one request more than readAhead is kept, and the others are
// answered too.
func TestReadingAheadIsBounded(t *testing.T) {
	r := run(t)
	made := r.making(state("a=1", "a=1", "", ""))
	s := r.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType})
	st := r.only(1)
	kept := 1
	for st.keep(content.EDS, &protocol.Request{TypeURL: content.EndpointType}) { // of no bytes
		kept++
	}
	if most := readAhead/costOfKept + 1; kept > most {
		t.Errorf("%d requests are kept, want at most %d", kept, most)
	}
	s.send(&discoveryv3.DiscoveryRequest{TypeUrl: content.EndpointType, ResourceNames: []string{"a"}})
	made()
	s.next(content.ClusterType)
	s.next(content.EndpointType)
}

// A kept request that asks for too much ends the stream, as one does that comes later.
func TestKeptRequestsMayEndTheStream(t *testing.T) {
	r := run(t)
	made := r.making(state("a=1", "a=1", "", ""))
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.client).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n, prefix := range []string{"", "1", "2"} { // the last two are more together than one subscription may have
		names := make([]string, content.MaxNames/2+1)
		for i := range names {
			names[i] = prefix + string(rune(0x4e00+i/26)) + string(rune('a'+i%26))
		}
		if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: adstest.Node(), TypeUrl: content.EndpointType, ResourceNamesSubscribe: names}); err != nil {
			t.Fatal(err)
		}
		r.only(n + 1)
	}
	made()
	for err == nil {
		_, err = s.Recv()
	}
	adstest.Until(t, "the stream to be gone", func() bool { return len(r.all()) == 0 })
	if !strings.Contains(r.log.String(), "cause=refused") {
		t.Errorf("log %s, want it to say that the proxy is refused", r.log)
	}
}

// A request that can be refused at once is refused although the view is not made yet.
func TestBadRequestsAreRefusedWhileTheViewIsMade(t *testing.T) {
	r := run(t)
	made := r.making(state("a=1", "", "", ""))
	s := r.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType})
	r.only(1)
	s.send(&discoveryv3.DiscoveryRequest{})
	adstest.Until(t, "the stream to end", func() bool { return strings.Contains(r.log.String(), "proxy connected") })
	made()
	if code, _ := s.ends(); code != codes.InvalidArgument {
		t.Errorf("the stream ends with %s", code)
	}
}
