package ads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/ads/intake"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Server serves the newest mesh to every Envoy that connects.
type Server struct {
	limits  Limits
	log     *slog.Logger
	names   *interner
	current atomic.Pointer[generation] // nil before the first Push
	rate    *rate
	history history
	tracer  trace.Tracer // nil for none
	metrics *metrics
	vault   atomic.Pointer[vault] // nil for none
	objects objects

	onNews func() // see OnNews

	shedLogged   atomic.Pointer[time.Time] // when a connection that was closed for want of room was logged last
	greedyLogged atomic.Pointer[time.Time] // the same, for its requests
	pushing      sync.Mutex                // held while the next generation is made

	mu          sync.Mutex
	streams     map[*stream]bool
	apart       map[*stream]bool // streams that request objects
	viewers     viewers
	pushers     pushers
	connections connections
	intake      *intake.Budget
}

// New returns a Server that answers Unavailable until the first Push.
func New(limits Limits, log *slog.Logger) *Server {
	s := &Server{
		limits: limits, log: log, names: newInterner(), streams: map[*stream]bool{}, apart: map[*stream]bool{},
		onNews: func() {}, rate: newRate(limits.StreamsPerSecond), pushers: newPushers(),
	}
	s.metrics = newMetrics(s)
	s.intake = intake.New(limits.MaxRequest, s.cutGreedy)
	s.connections = connections{
		limit: limits.Connections, shed: s.shed,
		streamed: func() map[net.Conn]bool { return connectionsOf(s.everyone()) },
	}
	return s
}

// Metrics returns the server's metrics for Prometheus.
func (s *Server) Metrics() prometheus.Collector { return s.metrics }

// Pushes returns the last pushes, the oldest first.
func (s *Server) Pushes() []Push { return s.history.list() }

// shed counts a connection for which there is no room, and logs it, at most once in shedEvery.
func (s *Server) shed(conn net.Conn) {
	s.metrics.refused.WithLabelValues("connections").Inc()
	now := time.Now()
	if last := s.shedLogged.Load(); last == nil || now.Sub(*last) > shedEvery {
		s.shedLogged.Store(&now)
		s.log.Warn("too many connections, one is closed", "limit", s.limits.Connections, "peer", conn.RemoteAddr().String())
	}
}

// Push makes m the mesh that every proxy gets. It does not wait for proxies; each stream takes the newest mesh when it
// can.
func (s *Server) Push(m *model.Mesh, c model.Change) {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	s.push(m, c)
}

// Took returns how long it took to offer the last push to every stream, or how long that has taken so far.
func (s *Server) Took() time.Duration { return s.pushers.took(time.Now()) }

func (s *Server) push(m *model.Mesh, c model.Change) {
	collected := time.Now()
	if !c.Since.IsZero() {
		s.metrics.debounce.Observe(collected.Sub(c.Since).Seconds())
	}
	g := s.current.Load().follow(m, c, s.names)
	if v := s.vault.Load(); v != nil {
		g.vault = v
	}
	s.tracePush(g, collected)
	s.publish(g)
}

func (s *Server) publish(g *generation) {
	s.mu.Lock()
	s.current.Store(g)
	s.history.begin(g, len(s.streams), time.Now())
	s.mu.Unlock()
	s.objects.wake()
	s.pushers.start(s.all())
}

// sending counts responses that are about to be sent. Responses that do not follow from the change that made g are not
// counted in the time that the change took.
func (s *Server) sending(g *generation, responses []response, follows bool, now time.Time) {
	s.history.sent(g.number, responses)
	since := g.change.Since
	if !follows {
		since = time.Time{}
	}
	s.metrics.sent(responses, since, now)
}

// reached records that a proxy has all of a generation, or has left.
func (s *Server) reached(from, to int64, now time.Time) {
	for _, took := range s.history.reached(from, to, now) {
		s.metrics.convergence.Observe(took.Seconds())
	}
}

// Clients returns the connected proxies, ordered by node, then by age.
func (s *Server) Clients() []Client {
	clients := []Client{}
	for _, st := range s.all() {
		clients = append(clients, st.client())
	}
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Connected.Compare(b.Connected))
	})
	return clients
}

// refused counts the resources that proxies refuse while they have the others. A resource that several proxies refuse
// counts once.
func (s *Server) refused() (count [kinds]int) {
	seen := map[unit]bool{}
	for _, st := range s.all() {
		st.mu.Lock()
		for k := range kinds {
			if st.protocol == nil || st.protocol.types[k].isolation == nil {
				continue
			}
			for u := range st.protocol.types[k].isolation.refused {
				if !seen[u] {
					seen[u] = true
					count[k]++
				}
			}
		}
		st.mu.Unlock()
	}
	return count
}

func (s *Server) all() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	streams := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		streams = append(streams, st)
	}
	return streams
}

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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &entrance{listener, &s.connections}
	server := grpc.NewServer(s.limits.options(linked{secure, s.intake})...)
	for _, desc := range services() {
		server.RegisterService(desc, door{s, l, ctx.Done()})
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

// cutGreedy counts a connection that is closed for its requests, and logs it.
func (s *Server) cutGreedy(peer, why string) {
	s.metrics.refused.WithLabelValues("requests").Inc()
	now := time.Now()
	if last := s.greedyLogged.Load(); last == nil || now.Sub(*last) > shedEvery {
		s.greedyLogged.Store(&now)
		s.log.Warn("client cut off: its requests take too much memory or time", "peer", peer, "reason", why)
	}
}

// door accepts the streams of one listener.
type door struct {
	*Server
	listener net.Listener
	closing  <-chan struct{}
}

// open admits a stream.
func (d door) open(w grpc.ServerStream, v variant, only kind) (*stream, error) {
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
	st := newStream(d.Server, w, v, only)
	st.listener = d.listener
	st.intake.Opened()
	d.add(st)
	return st, nil
}

// everyone returns the streams of proxies and of control planes.
func (s *Server) everyone() []*stream {
	all := s.all()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq(all, maps.Keys(s.apart))
}

// setApart adds a stream to those that request objects, or removes it.
func (s *Server) setApart(st *stream, apart bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	if delete(s.apart, st); apart {
		s.apart[st] = true
	}
}

func (s *Server) add(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.reached = s.current.Load().number // older generations do not wait for this stream
	s.streams[st] = true
}

// ended is the status that a client gets at the end of its stream: nil where it left by itself.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// remove ends a stream, and returns the status that its client gets: nil where it left by itself.
func (s *Server) remove(st *stream, err error) error {
	err = ended(err)
	st.intake.Closed()
	reached, cause := st.leave(err) // a client that does not read may block this; the stream is still listed meanwhile
	s.mu.Lock()
	delete(s.streams, st)
	newest := s.current.Load().number
	s.mu.Unlock()
	s.reached(reached, newest, time.Now())
	s.metrics.resets.WithLabelValues(cause).Inc()
	return err
}
