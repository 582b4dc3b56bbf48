package ads

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// Serve answers on l, in plaintext, until ctx is done; it closes l. The server then closes connections one after the
// other, so that clients reconnect elsewhere, and cuts those that are left at the time limit. Serve returns when no
// goroutine of its own is left; nil if ctx ended it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serveWith(ctx, l, plaintext{})
}

// ServeTLS is Serve with certificates on both sides.
func (s *Server) ServeTLS(ctx context.Context, l net.Listener, secure *TLS) error {
	return s.serveWith(ctx, l, secure.credentials())
}

func (s *Server) serveWith(ctx context.Context, listener net.Listener, secure credentials.TransportCredentials) error {
	within := ctx
	ctx, cancel := context.WithCancel(within)
	defer cancel()
	port, isShared := secure.(httpCredentials)
	if !isShared {
		port.own = &Own{}
	}
	l := &trackedListener{listener, &s.connections, isShared}
	server := grpc.NewServer(s.limits.options(trackedCredentials{secure, s.intake, s.refuse})...)
	for _, desc := range services() {
		server.RegisterService(desc, discoveryService{s, l, port.own.Prove, ctx.Done()})
	}
	if port.own.Sign != nil {
		security.RegisterIstioCertificateServiceServer(server, certificateService{Server: s, sign: port.own.Sign})
	}
	var running sync.WaitGroup
	for range pusherCount {
		running.Go(func() { s.pushers.run(ctx) })
	}
	running.Go(func() { s.cutSlow(ctx, l) })
	running.Go(func() { s.runCleanUp(ctx) })
	running.Go(func() { s.cutIncomplete(ctx) })
	running.Go(func() {
		<-ctx.Done()
		s.stop(server, l)
	})
	err := server.Serve(l)
	if errors.Is(err, grpc.ErrServerStopped) && within.Err() != nil { // the stop came before the start
		err = nil
	}
	cancel()
	running.Wait()
	if err != nil {
		return fmt.Errorf("serve ADS on %s: %w", l.Addr(), err)
	}
	return nil
}

// cutSlow closes the connections of proxies that do not answer, of one listener.
func (s *Server) cutSlow(ctx context.Context, l net.Listener) {
	tick := time.NewTicker(max(s.limits.SendTimeout/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, st := range s.all() {
				if st.listener == l {
					st.cutIfSlow(now, s.limits.SendTimeout)
				}
			}
		}
	}
}

// cutIncomplete closes the connections of clients that do not complete their requests.
func (s *Server) cutIncomplete(ctx context.Context) {
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.intake.CloseSlow(now)
		}
	}
}

// discoveryService accepts the streams of one listener.
type discoveryService struct {
	*Server
	listener net.Listener
	prove    prover // nil where only certificates prove
	closing  <-chan struct{}
}

// open admits a stream.
func (d discoveryService) open(w grpc.ServerStream, v content.Variant, only content.Kind) (*stream, error) {
	if d.current.Load() == nil {
		d.metrics.refused.WithLabelValues("not synced").Inc()
		return nil, status.Error(codes.Unavailable, "not synced yet")
	}
	select {
	case <-d.closing: // a client may open streams until it has received the GOAWAY
		d.metrics.refused.WithLabelValues("stopping").Inc()
		return nil, status.Error(codes.Unavailable, "stopping")
	default:
	}
	if err := d.rate.admit(time.Now()); err != nil {
		d.metrics.refused.WithLabelValues("rate").Inc()
		return nil, err
	}
	st := newStream(&d.hub, d.Server, w, v, only)
	st.listener, st.prove = d.listener, d.prove
	st.intake.Opened()
	d.add(st)
	return st, nil
}

// streamHandler is the handler of the streams of all services.
type streamHandler interface {
	open(w grpc.ServerStream, v content.Variant, only content.Kind) (*stream, error)
}

// services describes the aggregated discovery service, and those of one kind each for clients that want them. They are
// written by hand, since generated ones would decode each request and encode each response separately.
func services() []*grpc.ServiceDesc {
	const prefix = "envoy.service."
	out := []*grpc.ServiceDesc{describeService(prefix+"discovery.v3.AggregatedDiscoveryService", "AggregatedResources", aggregated)}
	for k, name := range [content.Kinds][2]string{
		content.CDS: {"cluster.v3.ClusterDiscoveryService", "Clusters"},
		content.EDS: {"endpoint.v3.EndpointDiscoveryService", "Endpoints"},
		content.SDS: {"secret.v3.SecretDiscoveryService", "Secrets"},
		content.LDS: {"listener.v3.ListenerDiscoveryService", "Listeners"},
		content.RDS: {"route.v3.RouteDiscoveryService", "Routes"},
	} {
		if name[0] != "" { // names have none
			out = append(out, describeService(prefix+name[0], name[1], content.Kind(k)))
		}
	}
	return out
}

func describeService(name, what string, only content.Kind) *grpc.ServiceDesc {
	stream := func(method string, v content.Variant) grpc.StreamDesc {
		return grpc.StreamDesc{
			StreamName: method + what, ServerStreams: true, ClientStreams: true,
			Handler: func(server any, w grpc.ServerStream) error {
				st, err := server.(streamHandler).open(w, v, only)
				if err != nil {
					return err
				}
				return st.run() // with no frame between: see run
			},
		}
	}
	return &grpc.ServiceDesc{
		ServiceName: name, HandlerType: (*streamHandler)(nil),
		Streams: []grpc.StreamDesc{stream("Stream", content.SotW), stream("Delta", content.Delta)},
	}
}

// codec writes responses from bytes that all streams share, and reads requests without decoding them. Every other
// protocol of the server uses the standard codec.
type codec struct {
	standard encoding.CodecV2
	scratch  *sync.Pool // of *[]byte; gRPC's own pool clears 1 MB for a request of 48 kB
}

func newCodec() codec {
	return codec{
		standard: encoding.GetCodecV2("proto"),
		scratch:  &sync.Pool{New: func() any { return new([]byte) }},
	}
}

func (c codec) Name() string { return "proto" }

// Marshal never copies a resource. The shared buffers are plain slices without a pool, which would recycle them.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*protocol.Response)
	if !ok {
		return c.standard.Marshal(v)
	}
	out := make(mem.BufferSlice, 0, len(r.Update.Lists)+1)
	for _, p := range r.Update.Lists {
		pieces, _ := p.Pieces(r.Variant)
		for _, b := range pieces {
			out = append(out, mem.SliceBuffer(b))
		}
	}
	return append(out, mem.SliceBuffer(r.Tail())), nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*protocol.Request)
	if !ok {
		return c.standard.Unmarshal(data, v)
	}
	if len(data) == 1 {
		r.Read(data[0].ReadOnlyData())
		return nil
	}
	scratch := c.scratch.Get().(*[]byte)
	defer c.scratch.Put(scratch)
	if n := data.Len(); cap(*scratch) < n {
		*scratch = make([]byte, n)
	}
	*scratch = (*scratch)[:data.Len()]
	data.CopyTo(*scratch)
	r.Read(*scratch)
	return nil
}

// stop moves proxies to other replicas. It announces the end to all of them, and closes open connections spread over
// time, so that the other replicas do not get all requests at once. It takes no longer than the limit, even if clients
// do not cooperate.
func (s *Server) stop(server *grpc.Server, l net.Listener) {
	late, cancel := context.WithTimeout(context.Background(), s.limits.Shutdown)
	defer cancel()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		server.GracefulStop()
	}()
	streams := slices.DeleteFunc(s.all(), func(st *stream) bool { return st.listener != l })
	s.connections.closeAllBut(l, connectionsOf(streams))
	pace := spread(len(streams), s.limits.Shutdown)
	for _, st := range streams {
		st.close()
		select {
		case <-time.After(pace):
		case <-graceful:
		case <-late.Done():
		}
	}
	select {
	case <-graceful:
	case <-late.Done():
		server.Stop()
		<-graceful
	}
}

// spread returns the time between the ends of n streams: ten milliseconds, or less, so that all take at most half of
// the limit.
func spread(n int, limit time.Duration) time.Duration {
	return min(10*time.Millisecond, limit/2/time.Duration(max(n, 1)))
}
