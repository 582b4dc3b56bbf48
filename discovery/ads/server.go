package ads

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	maxRequest = 4 << 20 // bytes; a subscription to 50,000 names
	window     = 1 << 20 // bytes in flight, of a stream and of a connection
	stopGrace  = 3 * time.Second
	handshake  = 10 * time.Second // a connection that says nothing holds up the stop for as long
)

// Server serves the newest mesh that it was given to every Envoy that asks.
type Server struct {
	log       *slog.Logger
	current   atomic.Pointer[generation] // nil before the first Push
	receivers sync.WaitGroup

	mu      sync.Mutex
	streams map[*stream]bool
}

// New returns a Server that answers Unavailable until the first Push.
func New(log *slog.Logger) *Server {
	return &Server{log: log, streams: map[*stream]bool{}}
}

// Push makes m what every proxy gets. It returns at once; each stream takes the newest mesh when it can.
func (s *Server) Push(m *model.Mesh) {
	s.current.Store(&generation{mesh: m})
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		select {
		case st.wake <- struct{}{}:
		default:
		}
	}
}

// Clients returns the connected proxies, ordered by node, then by age.
func (s *Server) Clients() []Client {
	s.mu.Lock()
	streams := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		streams = append(streams, st)
	}
	s.mu.Unlock()
	clients := make([]Client, 0, len(streams))
	for _, st := range streams {
		clients = append(clients, st.client())
	}
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Connected.Compare(b.Connected))
	})
	return clients
}

// Serve answers on l until ctx is done; it closes l. Streams are then told to go elsewhere, and those that do not
// leave are cut. It returns when no goroutine of its own is left; nil where ctx ended it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := grpc.NewServer(options()...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, service{s, ctx.Done()})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		stop(server)
	}()
	err := server.Serve(l)
	cancel()
	<-stopped
	s.receivers.Wait()
	if err != nil {
		return fmt.Errorf("serve ADS on %s: %w", l.Addr(), err)
	}
	return nil
}

// options detect a peer that is gone, allow Envoy's own keepalive, and let a whole first configuration fly at once.
func options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.ConnectionTimeout(handshake),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
}

// stop lets answers that are on their way arrive, for a while.
func stop(server *grpc.Server) {
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		server.GracefulStop()
	}()
	select {
	case <-graceful:
	case <-time.After(stopGrace):
		server.Stop()
		<-graceful
	}
}

// service is the gRPC face of a Server; its streams end when done closes.
type service struct {
	server *Server
	done   <-chan struct{}
}

// StreamAggregatedResources serves the state of the world.
func (s service) StreamAggregatedResources(w wire) error {
	if s.server.current.Load() == nil {
		return status.Error(codes.Unavailable, "not synced yet")
	}
	st := &stream{
		server: s.server, log: s.server.log,
		peer: peerOf(w), connected: time.Now(), wake: make(chan struct{}, 1),
	}
	s.server.add(st)
	defer s.server.remove(st)
	return st.run(w, s.done)
}

// DeltaAggregatedResources refuses.
func (service) DeltaAggregatedResources(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return status.Error(codes.Unimplemented, "delta xDS is not served, use state of the world (xds variant sotw)")
}

func (s *Server) add(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[st] = true
}

func (s *Server) remove(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	s.mu.Unlock()
	if st.node != "" {
		s.log.Info("proxy disconnected", "node", st.node, "peer", st.peer)
	}
}
