package ads

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// askOnce requests clusters and returns the status with which the stream ends.
func askOnce(r *running, client *grpc.ClientConn, s *peerStream) (codes.Code, string) {
	ctx, cancel := context.WithTimeout(context.Background(), adstest.Deadline)
	defer cancel()
	wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(client).StreamAggregatedResources(ctx)
	if err != nil {
		return status.Code(err), err.Error()
	}
	s.AggregatedDiscoveryService_StreamAggregatedResourcesClient = wire
	_ = wire.Send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType}) // Recv returns the reason
	return s.ends()
}

// A client that leaves a response without an answer is disconnected after the adstest.Deadline, whether its sender is blocked
// or not. Other clients continue.
func TestSlowClientsAreCutOff(t *testing.T) {
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("service%03d", i))
	}
	for name, ask := range map[string]func(s *peerStream){
		"it reads and does not answer": func(s *peerStream) { s.ask(content.ClusterType) },
		"it reads nothing": func(s *peerStream) {
			s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType})
		},
		"it reads nothing and asks for all": func(s *peerStream) {
			for k := range content.Kinds {
				s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: k.TypeURL(), ResourceNames: names[:2*int(k%2)]})
			}
		},
		"it says nothing": func(*peerStream) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := testLimits()
				limits.SendTimeout = 8 * time.Second
				r := runWith(t, limits, nil)
				r.Push(adstest.Mesh(1, names...), model.Change{})
				other := r.dial(insecure.NewCredentials())
				defer other.Close()
				good := r.openOn(other)
				good.ack(good.ask(content.ClusterType))
				bad := r.open()
				start := time.Now()
				ask(bad)
				synctest.Wait()
				for len(r.Clients()) > 1 {
					pass(time.Second / 2)
				}
				if took := time.Since(start); took < limits.SendTimeout || took > limits.SendTimeout*5/4 {
					t.Errorf("gone after %s, want %s and little more", took, limits.SendTimeout)
				}
				r.Push(adstest.Mesh(1, "a"), model.Change{})
				good.next(content.ClusterType)
			})
		})
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Streams beyond the rate get a delay before a retry; the delays differ.
func TestNewStreamsPerSecond(t *testing.T) {
	now := time.Unix(0, 0)
	r := newRate(10)
	waits := map[time.Duration]bool{}
	admitted := 0
	for range 100 {
		err := r.admit(now)
		if err == nil {
			admitted++
			continue
		}
		details := status.Convert(err).Details()
		if status.Code(err) != codes.ResourceExhausted || len(details) != 1 {
			t.Fatalf("got %v, want ResourceExhausted with RetryInfo", err)
		}
		waits[details[0].(*errdetails.RetryInfo).RetryDelay.AsDuration()] = true
	}
	if admitted != 10 || len(waits) < 80 {
		t.Errorf("%d admitted, %d different waits; want 10, and each its own", admitted, len(waits))
	}
	for i := range 5 {
		if err := r.admit(now.Add(time.Duration(i+1) * 100 * time.Millisecond)); err != nil {
			t.Errorf("after %d tenths of a second: %v", i+1, err)
		}
	}
	for range 100 {
		if err := newRate(0).admit(now); err != nil {
			t.Errorf("without a limit: %v", err)
		}
	}
}

// A refused stream gets a status with the time to wait, and is counted.
func TestTooManyNewStreamsAreRefused(t *testing.T) {
	limits := testLimits()
	limits.StreamsPerSecond = 0.001
	r := runWith(t, limits, nil)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	r.open().ask(content.ClusterType)
	_, err := r.open().Recv()
	details := status.Convert(err).Details()
	if status.Code(err) != codes.ResourceExhausted || len(details) != 1 {
		t.Fatalf("got %v, want ResourceExhausted with a detail", err)
	}
	if wait, ok := details[0].(*errdetails.RetryInfo); !ok || wait.RetryDelay.AsDuration() < time.Second/2 {
		t.Errorf("got %v, want RetryInfo", details[0])
	}
	if n := testutil.ToFloat64(r.metrics.refused.WithLabelValues("rate")); n != 1 {
		t.Errorf("%g are counted, want 1", n)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	limits := testLimits()
	limits.MaxRequest = 1 << 16
	r := runWith(t, limits, nil)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	s := r.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.EndpointType, ResourceNames: []string{strings.Repeat("x", 1<<17)}})
	if code, _ := s.ends(); code != codes.ResourceExhausted {
		t.Errorf("a request that is too long: %s, want ResourceExhausted", code)
	}
	names := make([]string, content.MaxNames+1)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	big := run(t)
	big.Push(adstest.Mesh(1, "a"), model.Change{})
	s = big.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.EndpointType, ResourceNames: names})
	if code, text := s.ends(); code == codes.OK || !strings.Contains(text, "too many resource names") {
		t.Errorf("too many names: %s %q", code, text)
	}
}

// A node, a version and a nonce may have a bounded size, since a stream keeps them.
func TestNodesAreBounded(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	node := adstest.Node()
	node.Metadata.Fields["ANNOTATIONS"] = structpb.NewStringValue(strings.Repeat("x", 200<<10))
	s := r.open()
	s.send(&discoveryv3.DiscoveryRequest{
		Node: node, TypeUrl: content.ClusterType, VersionInfo: strings.Repeat("v", 1<<20), ResponseNonce: strings.Repeat("n", 1<<20),
	})
	s.ack(s.next(content.ClusterType))
	node.Metadata.Fields["ANNOTATIONS"] = structpb.NewStringValue(strings.Repeat("x", 256<<10))
	s = r.open()
	s.send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: content.ClusterType})
	if code, text := s.ends(); code != codes.InvalidArgument || !strings.Contains(text, "at most 262144 are allowed") {
		t.Errorf("a node that is too large: %s %q", code, text)
	}
}

// Headers larger than any token needs end the stream.
func TestHeadersAreBounded(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	for size, want := range map[int]bool{8 << 10: true, 2 * maxHeaders: false} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", strings.Repeat("x", size))
		wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.client).StreamAggregatedResources(ctx)
		if err == nil {
			_ = wire.Send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: content.ClusterType}) // Recv returns the reason
			_, err = wire.Recv()
		}
		if (err == nil) != want {
			t.Errorf("%d bytes of headers: %v, want success: %t", size, err, want)
		}
	}
}

// A client that holds its requests back is cut off, counted and logged; large requests of others are read meanwhile, of
// both sizes that a mesh of ten thousand services needs.
func TestHeldBackRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		r.Push(adstest.Mesh(1, "a"), model.Change{})
		hostile, gone := r.dialRaw(nil)
		for i := range uint32(15) {
			hostile.open()
			_ = hostile.WriteData(2*i+1, false, append([]byte{0, 0, 0x40, 0, 0}, make([]byte, 1<<10)...))
		}
		synctest.Wait()
		<-gone // one connection has room for one such request
		silent, gone := r.dialRaw((*rawClient).pong)
		silent.open()
		_ = silent.WriteData(1, false, append([]byte{0, 0, 0x40, 0, 0}, make([]byte, 1<<10)...))
		wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.client).DeltaAggregatedResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := &discoveryv3.DeltaDiscoveryRequest{Node: adstest.Node(), TypeUrl: content.EndpointType, InitialResourceVersions: map[string]string{}}
		for i := range 10_000 {
			name := fmt.Sprintf("outbound|8080||service-%d.namespace.svc.cluster.local", i)
			m.ResourceNamesSubscribe = append(m.ResourceNamesSubscribe, name)
			m.InitialResourceVersions[name] = fmt.Sprintf("%064d", i)
		}
		if err := wire.Send(m); err != nil {
			t.Fatal(err)
		}
		if answer, err := wire.Recv(); err != nil || len(answer.RemovedResources) != 10_000 {
			t.Errorf("a request of %d bytes: %d resources are removed, %v", proto.Size(m), len(answer.GetRemovedResources()), err)
		}
		start := time.Now()
		<-gone
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("a request that is held back is cut off after %s", took)
		}
		if n := testutil.ToFloat64(r.metrics.refused.WithLabelValues("requests")); n != 2 || strings.Count(r.log.String(), "client cut off") != 1 {
			t.Errorf("%g are counted, want 2, and one line of the log:\n%s", n, r.log)
		}
	})
}

// A stream beyond the limit does not begin until another one ends.
func TestStreamsPerConnection(t *testing.T) {
	overWire(t, base, func(r *rig) {
		limit := int(r.limits.StreamsPerConnection)
		var streams []*client
		opened := make(chan *client, 2*limit)
		for range limit {
			streams = append(streams, r.connect(content.SotW))
		}
		go func() { opened <- r.connect(content.SotW) }()
		synctest.Wait()
		if got := len(r.Clients()); got != limit || len(opened) != 0 {
			t.Errorf("%d streams on a connection, want %d", got, limit)
		}
		if err := streams[0].wire.CloseSend(); err != nil {
			t.Fatal(err)
		}
		(<-opened).want("the one that waited", "", "")
	})
}

// A stop closes the connections of proxies one after the other.
func TestStopIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		r.Push(adstest.Mesh(1, "a"), model.Change{})
		const count = 20
		start := time.Now()
		ends := make(chan time.Duration, count)
		for range count {
			conn := r.dial(insecure.NewCredentials())
			defer conn.Close()
			s := r.openOn(conn)
			s.ack(s.ask(content.ClusterType))
			go func() {
				s.ends()
				ends <- time.Since(start)
			}()
		}
		synctest.Wait()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		var all []time.Duration
		for range count {
			all = append(all, <-ends)
		}
		slices.Sort(all)
		if got := len(slices.Compact(all)); got < count-1 || all[len(all)-1] > time.Second {
			t.Errorf("streams ended at %v, want one after the other within a second", all)
		}
	})
}

// A client is asked to reconnect when its connection is old: another replica may have less load.
func TestOldConnectionsAreEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := testLimits()
		limits.MaxConnectionAge = time.Minute
		r := runWith(t, limits, nil)
		r.Push(adstest.Mesh(1, "a"), model.Change{})
		start := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.client).StreamAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s := &peerStream{t, wire}
		s.ack(s.ask(content.ClusterType))
		s.ends()
		const goodbye = 5 * time.Second // gRPC sends a ping before and after
		if age := time.Since(start); age < time.Minute*9/10 || age > time.Minute*11/10+ageGrace+goodbye {
			t.Errorf("the stream ended after %s, want a minute, give or take a tenth, and at most %s of grace", age, ageGrace)
		}
	})
}

// A connection that sends nothing is closed.
func TestHalfOpenConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		start := time.Now()
		conn, err := r.listener.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Logf("closed: %v", err)
		}
		if took := time.Since(start); took > handshake {
			t.Errorf("closed after %s, want %s", took, handshake)
		}
	})
}

// A client of the delta variant may not subscribe to an unlimited number of names while a response is unanswered: its
// stream ends, and no other.
func TestSubscriptionsOneByOneAreBounded(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.client).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		m := &discoveryv3.DeltaDiscoveryRequest{Node: adstest.Node(), TypeUrl: content.EndpointType}
		for j := range content.MaxNames / 2 {
			m.ResourceNamesSubscribe = append(m.ResourceNamesSubscribe, fmt.Sprint(i, "-", j))
		}
		if wire.Send(m) != nil {
			break // Recv returns the reason
		}
	}
	for err == nil {
		_, err = wire.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "too many resource names") {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
	r.open().ask(content.ClusterType)
}
