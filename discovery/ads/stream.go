package ads

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/intake"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// maxUnknownTypes is how many types that are not served are logged for one stream.
const maxUnknownTypes = 8

// maxWithheld is how many secrets that it does not get are logged for one stream.
const maxWithheld = 32

// streamList is the list of the open streams.
type streamList interface {
	setControlPlane(st *stream, apart bool) (newest int64)
	remove(st *stream, err error) error
}

// stream carries one Envoy's protocol. Its own goroutine receives; any goroutine that has something to send does so,
// one at a time.
type stream struct {
	hub       *hub
	number    int64      // of the stream among all
	list      streamList // that it is on
	log       *slog.Logger
	wire      grpc.ServerStream
	variant   content.Variant
	only      content.Kind // aggregated, or the one kind that the service serves
	peer      string
	connected time.Time
	listener  net.Listener // the listener that accepted it
	intake    *intake.Conn // counts its requests
	prove     prover       // of identities by tokens, nil for none
	claimed   identity     // by its token, if it has no certificate
	dirty     atomic.Bool  // there is a newer generation

	senders   sync.WaitGroup
	sending   sync.Mutex // held while responses are decided on and sent, so that they are sent in that order
	mu        sync.Mutex // held while the session is used: debug pages read it, and must not wait for a slow Envoy
	node      string
	reader    content.Reader
	proven    identity          // by its certificate or its token
	locality  *workloadLocality // nil if the node sent a locality
	admission admission
	session   *protocol.Session // nil until the view is made
	unknown   map[string]bool
	leaves    func()            // ends the count of the stream for its identity, nil before the first request
	withheld  map[string]string // why secrets were not sent, by name
	version   string            // of Envoy
	dns       model.DNS
	agent     model.Agent
	shown     *generation
	asksMore  bool        // the reader has changed since
	announced bool        // the server knows that the proxy has connected: see OnNews
	waits     bool        // the log has told that it would lose most of its clusters
	reached   int64       // the generation that Envoy has completely
	at        time.Time   // since when
	alarm     *time.Timer // for responses that may be sent without an answer from Envoy; nil before the first
	cut       bool        // the connection was closed for being slow
	ended     bool        // the stream has ended

	span   trace.Span // of this proxy in the push of a generation; held: sending
	traced int64      // that generation
}

func newStream(h *hub, on streamList, w grpc.ServerStream, v content.Variant, only content.Kind) *stream {
	return &stream{
		hub: h, number: h.streamed.Add(1), list: on, log: h.log, wire: w, variant: v, only: only,
		peer: peerOf(w.Context()), connected: time.Now(), intake: connInfoOf(w.Context()).intake, span: content.Silent(),
	}
}

// fail does not end the stream itself: if sending to a stream fails, receiving from it fails too, and the stream ends
// there.
func (st *stream) fail(err error) {
	if err != nil {
		st.log.Debug("send failed", "node", st.node, "peer", st.peer, "err", err)
	}
}

// cutIfSlow closes the connection of an Envoy that has left a response without an answer for too long, or has never
// sent its node. SendMsg would not detect that: gRPC accepts a response of any size while none is in flight.
func (st *stream) cutIfSlow(now time.Time, limit time.Duration) {
	st.mu.Lock()
	since := st.connected
	switch {
	case st.session != nil:
		since = st.session.WaitsSince()
	case st.admission.waits:
		since = time.Time{} // it is the server that is slow
	}
	cut := !since.IsZero() && now.Sub(since) > limit && !st.cut
	st.cut = st.cut || cut
	st.mu.Unlock()
	if !cut {
		return
	}
	st.log.Warn("proxy cut off: a response has no answer", "node", st.node, "peer", st.peer, "since", since)
	st.close()
}

// close closes the connection: a stream alone cannot be ended while it waits to receive or to send.
func (st *stream) close() {
	if conn := connInfoOf(st.wire.Context()).conn; conn != nil {
		_ = conn.Close() // gRPC closes it again
	}
}

// leave ends the use of the stream by other goroutines. It returns the last generation that Envoy had, and the reason
// of its end.
func (st *stream) leave(err error) (reached int64, cause string) {
	defer st.senders.Wait()
	st.sending.Lock()
	defer st.sending.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
	if st.leaves != nil {
		st.leaves()
	}
	if st.alarm != nil {
		st.alarm.Stop()
	}
	st.span.End()
	switch code := status.Code(cmp.Or(st.admission.err, err)); {
	case st.cut:
		cause = "slow"
	case code == codes.InvalidArgument, code == codes.PermissionDenied, code == codes.Unauthenticated, code == codes.ResourceExhausted:
		cause = "refused"
	case code == codes.OK, code == codes.Canceled:
		cause = "client"
	default:
		cause = "error"
	}
	if st.node != "" {
		st.log.Info("proxy disconnected", "node", st.node, "peer", st.peer, "cause", cause)
	}
	return st.reached, cause
}

// identified reports whether the stream's first request has named its node.
func (st *stream) identified() bool { return st.session != nil || st.admission.waits }

// aggregated means that a stream carries every kind.
const aggregated = content.Kinds

// labels are those of the metric that counts connected proxies.
func (st *stream) labels() [3]string {
	st.mu.Lock()
	defer st.mu.Unlock()
	role, _, _ := strings.Cut(st.node, "~")
	return [3]string{role, st.version, st.variant.String()}
}

// ended is the status that a client gets at the end of its stream: nil where it left by itself.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// run serves until Envoy leaves or breaks the protocol. A thousand such goroutines wait in RecvMsg, where gRPC's stack
// frames alone nearly exceed 8 kB, after which Go allocates 16 kB. So the frames of run and of its callers are kept
// small.
func (st *stream) run() error {
	r := &protocol.Request{Variant: st.variant, Intern: st.hub.names}
	for {
		st.intake.Awaits()
		err := st.wire.RecvMsg(r)
		if err == nil {
			st.intake.Handled(r.Size)
			err = st.handle(r)
		}
		if err == errForObjects {
			return st.serveObjects(r)
		}
		if err != nil {
			return st.list.remove(st, err)
		}
	}
}

// handle answers a request, or keeps it until the view is made, and sends the responses that are due.
func (st *stream) handle(r *protocol.Request) error {
	k, served, err := st.check(r)
	if err != nil {
		return err
	}
	if st.begins() {
		st.sending.Lock() // until the admission is over
		st.senders.Go(st.admit)
	}
	if !served {
		return nil
	}
	if r.Names.Len() > r.Likely.Len() {
		r.Likely = r.Names
	}
	defer r.Done() // the next one may be long in coming
	if st.keep(k, r) {
		return nil
	}
	if err := st.answer(k, r); err != nil {
		return err
	}
	return st.flush()
}

func (st *stream) answer(k content.Kind, r *protocol.Request) error {
	st.sending.Lock()
	defer st.sending.Unlock()
	responses, err := st.request(k, r, time.Now())
	if err != nil {
		return err
	}
	return st.send(responses)
}

// remove ends a stream, and returns the status that its client gets: nil where it left by itself.
func (s *Server) remove(st *stream, err error) error {
	err = ended(err)
	st.intake.Closed()
	reached, cause := st.leave(err) // a client that does not read may block this; the stream is still listed meanwhile
	s.mu.Lock()
	delete(s.proxies, st)
	newest := s.current.Load().number
	s.mu.Unlock()
	s.reached(reached, newest, time.Now())
	s.metrics.resets.WithLabelValues(cause).Inc()
	s.disconnected.add(Disconnected{Node: st.node, At: time.Now(), Cause: cause})
	s.changed()
	return err
}

func (s *Server) add(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.reached = s.current.Load().number // older generations do not wait for this stream
	s.proxies[st] = true
}
