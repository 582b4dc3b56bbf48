package ads

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/intake"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Server serves the newest mesh to every Envoy that connects.
type Server struct {
	hub
	openStreams
	rate   *rate
	tracer trace.Tracer // nil for none

	shedLogged   atomic.Pointer[time.Time] // when a connection that was closed for want of room was logged last
	callerLogged atomic.Pointer[time.Time] // the same, for its certificate
	greedyLogged atomic.Pointer[time.Time] // the same, for its requests
	pushing      sync.Mutex                // held while the next generation is made

	disconnected disconnectedProxies
	pushers      pushers
	connections  connections
	intake       *intake.Budget
}

// New returns a Server that answers Unavailable until the first Push.
func New(limits Limits, log *slog.Logger) *Server {
	s := &Server{
		hub:         hub{limits: limits, log: log, names: content.NewInterner(), metrics: newMetrics(), onNews: func() {}, lacking: func(string, string) string { return "" }, changed: func() {}},
		openStreams: openStreams{proxies: map[*stream]bool{}, controlPlanes: map[*stream]bool{}},
		rate:        newRate(limits.StreamsPerSecond), pushers: newPushers(),
	}
	s.intake = intake.New(limits.MaxRequest, s.cutGreedy)
	s.connections = connections{
		limit: limits.Connections, shed: s.shed,
		streamed: func() map[net.Conn]bool { return connectionsOf(s.withControlPlanes()) },
	}
	return s
}

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
	if v := s.secretResources.Load(); v != nil {
		g.Secrets = v
	}
	g.Span = spanOf(s.tracer, g, collected)
	s.publish(g)
}

func (s *Server) publish(g *generation) {
	s.mu.Lock()
	s.current.Store(g)
	s.history.begin(g, len(s.proxies), time.Now())
	s.mu.Unlock()
	s.objects.wake()
	s.pushers.start(s.all())
	s.changed()
}

// refuse counts a connection whose certificate does not count, and logs it. Other handshakes that fail are of no
// interest.
func (s *Server) refuse(peer string, err error) {
	if !errors.Is(err, errCaller) {
		return
	}
	s.metrics.refused.WithLabelValues("caller").Inc()
	now := time.Now()
	if last := s.callerLogged.Load(); last == nil || now.Sub(*last) > shedEvery {
		s.callerLogged.Store(&now)
		s.log.Warn("connection refused at the secure port", "peer", peer, "err", err)
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

// Trace records pushes as spans of t. It must be called before the first Push; without it nothing is recorded.
func (s *Server) Trace(t trace.TracerProvider) { s.tracer = t.Tracer(content.Scope) }

// hub is what all streams of a server share.
type hub struct {
	limits          Limits
	log             *slog.Logger
	names           *content.Interner
	current         atomic.Pointer[generation]      // nil before the first Push
	secretResources atomic.Pointer[content.Secrets] // nil for none
	secrets         atomic.Pointer[secret.Set]      // those in the vault
	viewLimiter     viewLimiter
	objects         objects
	history         history
	metrics         *metrics
	onNews          func()                              // see OnNews
	changed         func()                              // see OnChange
	lacking         func(namespace, name string) string // see Lacking

	streamed atomic.Int64 // streams that were opened

	wipeLogged atomic.Pointer[time.Time] // when a client that would lose most of its clusters was logged last
}

// sending counts responses that are about to be sent. Responses that do not follow from the change that made g are not
// counted in the time that the change took.
func (h *hub) sending(g *generation, responses []protocol.Response, follows bool, now time.Time) {
	h.history.sent(g.number, responses)
	since := g.change.Since
	if !follows {
		since = time.Time{}
	}
	h.metrics.sent(responses, since, now)
}

// reached records that a proxy has all of a generation, or has left.
func (h *hub) reached(from, to int64, now time.Time) {
	for _, took := range h.history.reached(from, to, now) {
		h.metrics.convergence.Observe(took.Seconds())
	}
}

// openStreams is the streams that are open.
type openStreams struct {
	mu            sync.Mutex
	proxies       map[*stream]bool
	controlPlanes map[*stream]bool // streams that request objects
}

// refused counts the resources that proxies refuse while they have the others. A resource that several proxies refuse
// counts once.
func (c *openStreams) refused() (count [content.Kinds]int) {
	seen := map[content.ResourceID]bool{}
	for _, st := range c.all() {
		st.mu.Lock()
		for k := range content.Kinds {
			if st.session == nil {
				continue
			}
			for u := range st.session.RefusedIDs(k) {
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

func (c *openStreams) all() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	streams := make([]*stream, 0, len(c.proxies))
	for st := range c.proxies {
		streams = append(streams, st)
	}
	return streams
}

// withControlPlanes returns the streams of proxies and of control planes.
func (c *openStreams) withControlPlanes() []*stream {
	all := c.all()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.AppendSeq(all, maps.Keys(c.controlPlanes))
}

// setControlPlane adds a stream to those that request objects, or removes it. It returns the newest generation, which
// is not one of those that come later.
func (c *openStreams) setControlPlane(st *stream, apart bool) (newest int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.proxies, st)
	if delete(c.controlPlanes, st); apart {
		c.controlPlanes[st] = true
	}
	return st.hub.current.Load().number
}

func connectionsOf(streams []*stream) map[net.Conn]bool {
	used := make(map[net.Conn]bool, len(streams))
	for _, st := range streams {
		used[connInfoOf(st.wire.Context()).conn] = true
	}
	return used
}
