package ads

import (
	"cmp"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/ads/intake"
)

// maxUnknownTypes is how many types that are not served are logged for one stream.
const maxUnknownTypes = 8

// maxWithheld is how many secrets that it does not get are logged for one stream.
const maxWithheld = 32

// stream carries one Envoy's protocol. Its own goroutine receives; any goroutine that has something to send does so,
// one at a time.
type stream struct {
	server    *Server
	log       *slog.Logger
	wire      grpc.ServerStream
	variant   variant
	only      kind // aggregated, or the one kind that the service serves
	peer      string
	connected time.Time
	listener  net.Listener // the listener that accepted it
	intake    *intake.Conn // counts its requests
	dirty     atomic.Bool  // there is a newer generation

	senders   sync.WaitGroup
	sending   sync.Mutex // held while responses are decided on and sent, so that they are sent in that order
	mu        sync.Mutex // held while the protocol is used: debug pages read it, and must not wait for a slow Envoy
	node      string
	reader    reader
	place     *place // nil if the node sent a locality
	admission admission
	protocol  *protocol // nil until the view is made
	unknown   map[string]bool
	leaves    func()            // ends the count of the stream for its identity, nil before the first request
	withheld  map[string]string // why secrets were not sent, by name
	version   string            // of Envoy
	shown     *generation
	asksMore  bool        // the reader has changed since
	told      bool        // the server knows that the proxy has connected: see OnNews
	reached   int64       // the generation that Envoy has completely
	at        time.Time   // since when
	alarm     *time.Timer // for responses that may be sent without an answer from Envoy; nil before the first
	cut       bool        // the connection was closed for being slow
	gone      bool        // the stream has ended

	span   trace.Span // of this proxy in the push of a generation; held: sending
	traced int64      // that generation
}

func newStream(s *Server, w grpc.ServerStream, v variant, only kind) *stream {
	return &stream{
		server: s, log: s.log, wire: w, variant: v, only: only,
		peer: peerOf(w.Context()), connected: time.Now(), intake: linkOf(w.Context()).intake, span: silent(),
	}
}

// run serves until Envoy leaves or breaks the protocol. A thousand such goroutines wait in RecvMsg, where gRPC's stack
// frames alone nearly exceed 8 kB, after which Go allocates 16 kB. So the frames of run and of its callers are kept
// small.
func (st *stream) run() error {
	r := &request{variant: st.variant, intern: st.server.names}
	for {
		st.intake.Awaits()
		err := st.wire.RecvMsg(r)
		if err == nil {
			st.intake.Handled(r.size)
			err = st.handle(r)
		}
		if err == errForObjects {
			return st.serveObjects(r)
		}
		if err != nil {
			return st.server.remove(st, err)
		}
	}
}

// handle answers a request, or keeps it until the view is made, and sends the responses that are due.
func (st *stream) handle(r *request) error {
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
	if r.names.len() > r.likely.len() {
		r.likely = r.names
	}
	defer r.done() // the next one may be long in coming
	if st.keep(k, r) {
		return nil
	}
	if err := st.answer(k, r); err != nil {
		return err
	}
	return st.flush()
}

func (st *stream) answer(k kind, r *request) error {
	st.sending.Lock()
	defer st.sending.Unlock()
	responses, err := st.request(k, r, time.Now())
	if err != nil {
		return err
	}
	return st.send(responses)
}

// flush sends newer state, unless another goroutine is sending: that one checks again when it has finished.
func (st *stream) flush() error {
	for st.dirty.Load() && st.sending.TryLock() {
		st.dirty.Store(false)
		err := st.send(st.push(time.Now()))
		st.sending.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// offer is flush for a goroutine that must not wait for a slow Envoy. gRPC accepts a first response of any size at once
// if no other is in flight; those after it may have to wait, so a new goroutine sends them.
func (st *stream) offer() {
	for st.dirty.Load() && st.sending.TryLock() {
		st.dirty.Store(false)
		idle, responses := st.pushIdle(time.Now())
		if len(responses) > 1 || len(responses) == 1 && !idle {
			st.senders.Go(func() {
				st.fail(st.send(responses))
				st.sending.Unlock()
				st.fail(st.flush())
			})
			return
		}
		st.fail(st.send(responses))
		st.sending.Unlock()
	}
}

// fail does not end the stream itself: if sending to a stream fails, receiving from it fails too, and the stream ends
// there.
func (st *stream) fail(err error) {
	if err != nil {
		st.log.Debug("send failed", "node", st.node, "peer", st.peer, "err", err)
	}
}

func (st *stream) send(responses []response) error {
	if len(responses) == 0 {
		return nil
	}
	now := time.Now()
	st.mu.Lock()
	follows := st.reached < st.shown.number // else it is new, or requests more
	st.mu.Unlock()
	st.server.sending(st.shown, responses, follows, now)
	st.traceResponses(st.shown, responses, now)
	for i := range responses {
		r := &responses[i]
		st.log.Debug("push", "node", st.node, "type_url", r.kind.typeURL(), "nonce", r.nonce, "version", r.version,
			"resources", r.news.size())
		if err := st.wire.SendMsg(r); err != nil {
			return err
		}
	}
	return nil
}

// check returns the kind that a request is for, and whether it is served. Its errors end the stream.
func (st *stream) check(r *request) (k kind, served bool, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.fault != nil {
		return 0, false, status.Error(codes.InvalidArgument, r.fault.Error())
	}
	if r.typeURL == "" && st.only != aggregated {
		r.typeURL = st.only.typeURL()
	}
	if err := st.identify(r); err != nil {
		return 0, false, err
	}
	if st.admission.err != nil {
		return 0, false, st.admission.err
	}
	k, served = kindOf(r.typeURL)
	if !served || st.only != aggregated && k != st.only {
		return 0, false, st.refuse(r.typeURL, nil)
	}
	if k == sds {
		if err := st.server.maySeeSecrets(st.wire.Context()); err != nil {
			st.logWithheld(r.names, err)
			return 0, false, st.refuse(r.typeURL, err)
		}
		st.ask(&st.reader.secrets)
	}
	if k == nds {
		st.ask(&st.reader.names)
	}
	return k, true, nil
}

// request answers one request. Its errors end the stream.
func (st *stream) request(k kind, r *request, now time.Time) ([]response, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.dirty.Store(false)
	st.refresh() // an answer that allows the next response must bring the newest state, whether the answer or the push comes first
	waited, found := st.protocol.types[k].pending, st.protocol.found(k)
	responses, nack, err := st.protocol.request(k, r, now)
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	if nack != nil || waited && !st.protocol.types[k].waits(responses, k) {
		st.server.metrics.answered(k, nack != nil)
		st.traceAnswer(k, nack, now)
	}
	if k == sds {
		st.logWithheld(r.names, nil)
	}
	st.reach(now)
	st.arm(now)
	if !st.told {
		st.told = true
		st.server.onNews()
	}
	if st.protocol.found(k) != found {
		st.server.onNews()
		for _, part := range st.protocol.types[k].isolation.list() {
			st.log.Warn("proxy refuses a part of its configuration, and has the rest", "node", st.node, "type_url", r.typeURL,
				"resource", part.Resource, "virtual_host", part.Host, "instead", part.Instead, "err", part.Text)
		}
	}
	if nack != nil && st.protocol.types[k].searching() {
		st.log.Debug("response refused, searching for the reason", "node", st.node, "type_url", r.typeURL, "version", nack.Version, "err", nack.Text)
	} else if nack != nil {
		st.log.Warn("response refused", "node", st.node, "type_url", r.typeURL, "version", nack.Version, "err", nack.Text)
	}
	return responses, nil
}

// ask records that the stream requests a kind for the first time.
func (st *stream) ask(asked *bool) {
	st.asksMore = st.asksMore || !*asked
	*asked = true
}

// refresh gives the protocol the newest generation.
func (st *stream) refresh() {
	newest := st.server.current.Load()
	if newest == st.shown && !st.asksMore {
		return // looking up a snapshot costs a copy of the proxy's properties
	}
	st.shown, st.asksMore = newest, false
	st.relocate()
	st.protocol.latest, st.protocol.share = st.shown.snapshot(st.reader), st.shown.share
}

// reach records the time when Envoy has answered for all of a generation.
func (st *stream) reach(now time.Time) {
	if st.shown.number > st.reached && !st.gone && st.protocol.reached() {
		st.span.End(trace.WithTimestamp(now))
		st.server.reached(st.reached, st.shown.number, now)
		st.reached, st.at = st.shown.number, now
	}
}

func (st *stream) push(now time.Time) []response {
	_, responses := st.pushIdle(now)
	return responses
}

// pushIdle also reports whether Envoy had answered everything before.
func (st *stream) pushIdle(now time.Time) (idle bool, responses []response) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.protocol == nil || st.gone {
		return true, nil // its first request gets the newest
	}
	idle = st.protocol.idle()
	st.refresh()
	responses = st.protocol.push(st.protocol.latest, st.protocol.share, now)
	st.reach(now)
	st.arm(now)
	return idle, responses
}

// arm sets the timer for responses that may be sent even if Envoy sends nothing until then.
func (st *stream) arm(now time.Time) {
	switch wake := st.protocol.wakes(now); {
	case !wake.IsZero() && st.alarm == nil:
		st.alarm = time.AfterFunc(wake.Sub(now), st.wake)
	case !wake.IsZero():
		st.alarm.Reset(wake.Sub(now))
	case st.alarm != nil:
		st.alarm.Stop()
	}
}

func (st *stream) wake() {
	st.dirty.Store(true)
	st.offer()
}

// cutIfSlow closes the connection of an Envoy that has left a response without an answer for too long, or has never
// sent its node. SendMsg would not detect that: gRPC accepts a response of any size while none is in flight.
func (st *stream) cutIfSlow(now time.Time, limit time.Duration) {
	st.mu.Lock()
	since := st.connected
	switch {
	case st.protocol != nil:
		since = st.protocol.waitsSince()
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
	if conn := linkOf(st.wire.Context()).conn; conn != nil {
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
	st.gone = true
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
	case code == codes.InvalidArgument, code == codes.PermissionDenied, code == codes.ResourceExhausted:
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
