package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/agent/lastgood"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

const limit = 30 * time.Second

type (
	stub       = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	client     = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	deltaReply = discoveryv3.DeltaDiscoveryResponse
	deltaAsk   = discoveryv3.DeltaDiscoveryRequest
)

// discovery is a server of which a test holds every word.
type discovery struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	handle      atomic.Pointer[func(stub) error]
	connections atomic.Int64 // that are open
}

// TagRPC does nothing. With the other three a discovery is a stats.Handler, which counts connections.
func (*discovery) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC does nothing.
func (*discovery) HandleRPC(context.Context, stats.RPCStats) {}

// TagConn does nothing.
func (*discovery) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn counts.
func (d *discovery) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		d.connections.Add(1)
	case *stats.ConnEnd:
		d.connections.Add(-1)
	}
}

func (d *discovery) DeltaAggregatedResources(s stub) error { return (*d.handle.Load())(s) }

// bench is a relay between gRPC's own client and gRPC's own server.
type bench struct {
	t       testing.TB
	dir     string
	relay   *Relay
	envoys  discoveryv3.AggregatedDiscoveryServiceClient
	log     *bytes.Buffer
	process atomic.Pointer[Process]

	address   string
	discovery discovery
	server    *grpc.Server
}

func start(t testing.TB) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), log: &bytes.Buffer{}}
	b.answer(honest)
	b.address = fmt.Sprintf("127.0.0.1:%d", lab.Port(t))
	b.serve()
	b.newEnvoy()
	log := slog.New(slog.NewTextHandler(&locked{w: b.log}, nil))
	store := lastgood.NewStore(b.dir, b.dir, nil, func(uint64) bool { return true }, log)
	host, port, _ := net.SplitHostPort(b.address)
	number := 0
	fmt.Sscan(port, &number)
	b.relay = New(Config{
		Host: host, Port: number, ConnectTimeout: time.Second, Store: store, Log: log,
		Process: func(int) (Process, bool) { return *b.process.Load(), true },
	})
	path := filepath.Join(t.TempDir(), "ads.sock")
	l, err := net.Listen("unix", path)
	b.must(err)
	server := b.relay.NewHTTPServer(func(net.Conn) int { return 1 })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { store.Run(ctx) })
	running.Go(func() { _ = server.Serve(l) })
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	b.must(err)
	b.envoys = discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	t.Cleanup(func() {
		conn.Close()
		b.server.Stop()
		server.Close()
		b.relay.Wait()
		cancel()
		running.Wait()
	})
	return b
}

// locked makes a writer safe for several goroutines.
type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) answer(f func(stub) error) { b.discovery.handle.Store(&f) }

func (b *bench) serve() {
	b.t.Helper()
	l, err := net.Listen("tcp", b.address)
	b.must(err)
	b.server = grpc.NewServer(grpc.StatsHandler(&b.discovery))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(b.server, &b.discovery)
	go b.server.Serve(l)
}

func (b *bench) newEnvoy() { b.process.Store(&Process{Started: time.Now(), Bootstrap: "b"}) }

func (b *bench) state() State {
	s, _ := b.relay.State(b.process.Load().Started)
	return s
}

func (b *bench) open() client {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(b.t.Context(), "x-token", "t1"), limit)
	b.t.Cleanup(cancel)
	s, err := b.envoys.DeltaAggregatedResources(ctx)
	b.must(err)
	return s
}

func (b *bench) ask(s client, typeURL string, more func(r *deltaAsk)) {
	b.t.Helper()
	r := &deltaAsk{Node: &corev3.Node{Id: "n", UserAgentName: "envoy"}, TypeUrl: typeURL}
	if more != nil {
		more(r)
	}
	b.must(s.Send(r))
}

// get receives a response, ACKs it, and returns its names.
func (b *bench) get(s client) string {
	b.t.Helper()
	r, err := s.Recv()
	b.must(err)
	b.must(s.Send(&deltaAsk{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}))
	text := r.TypeUrl[strings.LastIndex(r.TypeUrl, ".")+1:]
	for _, one := range r.Resources {
		text += " " + one.Name + "@" + one.Version
	}
	for _, name := range r.RemovedResources {
		text += " -" + name
	}
	return text
}

func (b *bench) want(s client, want ...string) {
	b.t.Helper()
	for _, w := range want {
		if got := b.get(s); got != w {
			b.t.Errorf("got %s, want %s", got, w)
		}
	}
}

// configure makes an Envoy ask for everything and get it.
func (b *bench) configure() client {
	b.t.Helper()
	s := b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	b.want(s, "Cluster c@1")
	b.ask(s, lastgood.TypeListener, nil)
	b.want(s, "Listener l@1")
	return s
}

func (b *bench) eventually(f func() error) {
	b.t.Helper()
	b.must(lab.Eventually(limit, f))
}

func (b *bench) remembered() {
	b.t.Helper()
	b.eventually(func() error { _, err := os.Stat(filepath.Join(b.dir, lastgood.FileName("n"))); return err })
}

// honest answers each type with one resource of its name's first letter, and an Envoy that has it with nothing new.
func honest(s stub) error {
	if header, _ := metadata.FromIncomingContext(s.Context()); len(header["x-token"]) != 1 {
		return errors.New("the stream has lost its headers")
	}
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if r.ResponseNonce != "" {
			continue
		}
		reply := &deltaReply{TypeUrl: r.TypeUrl, Nonce: "1"}
		name := strings.ToLower(r.TypeUrl[strings.LastIndex(r.TypeUrl, ".")+1:][:1])
		if r.InitialResourceVersions[name] != "1" {
			reply.Resources = append(reply.Resources, &discoveryv3.Resource{
				Name: name, Version: "1", Resource: &anypb.Any{TypeUrl: r.TypeUrl, Value: []byte("value of " + r.TypeUrl)},
			})
		}
		if err := s.Send(reply); err != nil {
			return err
		}
	}
}

func mute(s stub) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// A new Envoy gets what the one before it has accepted while discovery is away, and goes back to discovery with its versions.
func TestAway(t *testing.T) {
	b := start(t)
	s := b.configure()
	b.remembered()
	if state := b.state(); !state.Connected || !state.Serves.IsZero() {
		t.Errorf("got %+v", state)
	}
	b.server.Stop()
	if _, err := s.Recv(); err == nil {
		t.Error("the stream outlives discovery")
	}
	s = b.open() // it has a whole configuration
	b.ask(s, lastgood.TypeCluster, nil)
	if r, err := s.Recv(); err == nil {
		t.Errorf("an Envoy that serves gets an older configuration: %v", r)
	}
	b.newEnvoy()
	s = b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	b.want(s, "Cluster c@1")
	b.ask(s, lastgood.TypeSecret, func(r *deltaAsk) { r.ResourceNamesSubscribe = []string{"s"} })
	b.ask(s, lastgood.TypeListener, nil)
	b.want(s, "Listener l@1")
	if state := b.state(); state.Connected || state.Serves.IsZero() || !strings.Contains(state.Why, "connection refused") {
		t.Errorf("got %+v", state)
	}
	b.serve()
	if _, err := s.Recv(); err == nil || !strings.Contains(err.Error(), "discovery answers again") {
		t.Errorf("the stream goes on: %v", err)
	}
	b.eventually(func() error { // what Envoy has got is on disk, so its versions are believed
		s = b.open()
		b.ask(s, lastgood.TypeCluster, func(r *deltaAsk) { r.InitialResourceVersions = map[string]string{"c": "1"} })
		if got := b.get(s); got != "Cluster" {
			return fmt.Errorf("got %s, want nothing that it has", got)
		}
		return nil
	})
	if state := b.state(); !state.Connected || state.Why != "" || !state.Serves.IsZero() {
		t.Errorf("got %+v", state)
	}
}

// A discovery that accepts and says nothing is away too.
func TestMute(t *testing.T) {
	b := start(t)
	b.configure()
	b.remembered()
	b.answer(mute)
	b.newEnvoy()
	s := b.open()
	b.ask(s, lastgood.TypeListener, nil) // in whatever order
	b.ask(s, lastgood.TypeCluster, nil)
	b.want(s, "Listener l@1", "Cluster c@1")
	if state := b.state(); !strings.Contains(state.Why, "has not answered") {
		t.Errorf("got %+v", state)
	}
	b.answer(honest)
	if _, err := s.Recv(); err == nil || !strings.Contains(err.Error(), "discovery answers again") {
		t.Errorf("the stream goes on: %v", err)
	}
}

// The connection to discovery ends with its stream, also where Envoy ends that.
func TestConnectionsEnd(t *testing.T) {
	b := start(t)
	for range 20 {
		s := b.open()
		b.ask(s, lastgood.TypeCluster, nil)
		b.want(s, "Cluster c@1")
		b.must(s.CloseSend())
		if _, err := s.Recv(); err == nil {
			t.Fatal("the stream goes on")
		}
	}
	b.eventually(func() error {
		if n := b.discovery.connections.Load(); n != 0 {
			return fmt.Errorf("%d connections are open", n)
		}
		return nil
	})
}

// An Envoy that discovery has left in the middle of a start gets the rest from memory, and what it then has is remembered.
func TestAwayInTheMiddleOfAStart(t *testing.T) {
	b := start(t)
	b.configure()
	b.remembered()
	b.newEnvoy()
	s := b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	b.want(s, "Cluster c@1")
	b.server.Stop()
	if _, err := s.Recv(); err == nil {
		t.Error("the stream outlives discovery")
	}
	has := func(r *deltaAsk) { r.InitialResourceVersions = map[string]string{"c": "1"} }
	s = b.open()
	b.ask(s, lastgood.TypeCluster, has)
	b.ask(s, lastgood.TypeListener, nil)
	b.want(s, "Cluster", "Listener l@1")
	path := filepath.Join(b.dir, lastgood.FileName("n"))
	before, err := os.Stat(path)
	b.must(err)
	b.eventually(func() error {
		if now, err := os.Stat(path); err != nil || os.SameFile(before, now) {
			return fmt.Errorf("the journal of this Envoy has not got the name: %v", err)
		}
		return nil
	})
	b.newEnvoy()
	s = b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	b.ask(s, lastgood.TypeListener, nil)
	b.want(s, "Cluster c@1", "Listener l@1")
}

// A discovery that answers the first question and no other is away as well, for an Envoy that lacks the rest.
func TestMuteAfterAnAnswer(t *testing.T) {
	b := start(t)
	b.configure()
	b.remembered()
	b.answer(func(s stub) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		reply := &deltaReply{TypeUrl: lastgood.TypeCluster, Nonce: "1", Resources: []*discoveryv3.Resource{
			{Name: "c", Version: "2", Resource: &anypb.Any{TypeUrl: lastgood.TypeCluster, Value: []byte("new")}},
		}}
		if err := s.Send(reply); err != nil {
			return err
		}
		return mute(s)
	})
	b.newEnvoy()
	s := b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	b.want(s, "Cluster c@2")
	b.ask(s, lastgood.TypeListener, nil)
	if r, err := s.Recv(); err == nil || !strings.Contains(err.Error(), errSilent.Error()) {
		t.Fatalf("got %v and %v, want the end of the stream", r, err)
	}
	b.answer(mute)
	s = b.open()
	b.ask(s, lastgood.TypeCluster, func(r *deltaAsk) { r.InitialResourceVersions = map[string]string{"c": "2"} })
	b.ask(s, lastgood.TypeListener, nil)
	for got := ""; got != "Listener l@1"; got = b.get(s) {
	}
}

// A trial gets what discovery has, or else what is remembered. Nothing of it is remembered, and however many there are, the Envoy
// that serves is not forgotten.
func TestTrials(t *testing.T) {
	b := start(t)
	b.configure()
	b.remembered()
	serving := b.process.Load()
	path := filepath.Join(b.dir, lastgood.FileName("n"))
	before, err := os.ReadFile(path)
	b.must(err)
	for range mostEnvoys + 1 {
		b.process.Store(&Process{Started: time.Now(), Bootstrap: "b", Trial: true})
		s := b.configure()
		b.must(s.CloseSend())
		for err == nil {
			_, err = s.Recv()
		}
		err = nil
	}
	if s, known := b.relay.State(serving.Started); !known || !s.Connected {
		t.Errorf("of the Envoy that serves nothing is known: %+v, %t", s, known)
	}
	b.eventually(func() error {
		b.relay.mu.Lock()
		defer b.relay.mu.Unlock()
		if n := len(b.relay.envoys); n != 1 {
			return fmt.Errorf("%d Envoys are known, want one", n)
		}
		return nil
	})
	b.server.Stop()
	b.process.Store(&Process{Started: time.Now(), Bootstrap: "b", Trial: true})
	s := b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	b.want(s, "Cluster c@1")
	now, err := os.ReadFile(path)
	b.must(err)
	if entries, err := os.ReadDir(b.dir); err != nil || len(entries) != 1 || !bytes.Equal(before[40:], now[40:]) { // the time of the last contact differs
		t.Errorf("a trial is remembered: %v, %v, and the file has %d bytes after %d", entries, err, len(now), len(before))
	}
}

// Without a memory Envoy waits for discovery, also for one that is slow.
func TestNothingRemembered(t *testing.T) {
	b := start(t)
	release := make(chan struct{})
	b.answer(func(s stub) error {
		<-release
		return honest(s)
	})
	s := b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	b.eventually(func() error {
		if state := b.state(); !strings.Contains(state.Why, "has not answered for 2s") {
			return fmt.Errorf("got %+v", state)
		}
		return nil
	})
	close(release)
	b.want(s, "Cluster c@1")
}

// Discovery's refusal is Envoy's, and a stream that is none ends.
func TestRefusals(t *testing.T) {
	b := start(t)
	b.answer(func(stub) error { return errors.New("not synced yet") })
	s := b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	if _, err := s.Recv(); err == nil || !strings.Contains(err.Error(), "not synced yet") {
		t.Errorf("got %v", err)
	}
	conn := b.open()
	b.must(conn.CloseSend())
	if _, err := conn.Recv(); err == nil {
		t.Error("a stream without a request is served")
	}
	long := b.open()
	b.ask(long, lastgood.TypeCluster, func(r *deltaAsk) { r.ResourceNamesSubscribe = []string{strings.Repeat("x", mostRequest)} })
	if _, err := long.Recv(); err == nil {
		t.Error("a request of any size is read")
	}
}

// A secret passes, and never reaches the disk.
func TestSecretsAreNotRemembered(t *testing.T) {
	b := start(t)
	s := b.configure()
	b.ask(s, lastgood.TypeSecret, nil)
	b.want(s, "Secret s@1")
	b.remembered()
	b.eventually(func() error {
		entries, err := os.ReadDir(b.dir)
		if err != nil || len(entries) != 1 {
			return fmt.Errorf("got %v, %v", entries, err)
		}
		text, err := os.ReadFile(filepath.Join(b.dir, entries[0].Name()))
		if err == nil && !bytes.Contains(text, []byte("value of "+lastgood.TypeListener)) {
			err = errors.New("the listener is not there")
		}
		if bytes.Contains(text, []byte("value of "+lastgood.TypeSecret)) {
			b.t.Error("the secret is on disk")
		}
		return err
	})
}

// An Envoy that does not read stops discovery: the relay holds little, and loses nothing.
func TestBackPressure(t *testing.T) {
	b := start(t)
	const all = 50
	var sent atomic.Int64
	b.answer(func(s stub) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		for i := range all {
			value := &anypb.Any{TypeUrl: lastgood.TypeCluster, Value: make([]byte, 1<<20)}
			r := &deltaReply{TypeUrl: lastgood.TypeCluster, Nonce: fmt.Sprint(i), Resources: []*discoveryv3.Resource{{Name: "c", Version: fmt.Sprint(i), Resource: value}}}
			if err := s.Send(r); err != nil {
				return err
			}
			sent.Add(1)
		}
		return mute(s)
	})
	s := b.open()
	b.ask(s, lastgood.TypeCluster, nil)
	before := int64(-1)
	since := time.Now()
	b.eventually(func() error {
		if now := sent.Load(); now != before {
			before, since = now, time.Now()
		}
		if time.Since(since) < time.Second {
			return errors.New("discovery sends on")
		}
		return nil
	})
	if before > all/2 {
		t.Errorf("discovery has sent %d of %d MB to an Envoy that reads nothing", before, all)
	}
	for i := range all {
		if r, err := s.Recv(); err != nil || r.Nonce != fmt.Sprint(i) || len(r.Resources) != 1 || len(r.Resources[0].Resource.Value) != 1<<20 {
			t.Fatalf("message %d: %.100v, %v", i, r, err)
		}
	}
}
