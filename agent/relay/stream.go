package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/agent/lastgood"
)

// Times of a stream that discovery answers.
const (
	contactInterval = time.Minute      // between two notes that discovery is there
	contactPause    = 10 * time.Second // at least between two of them
)

const piece = 32 << 10 // bytes of a response that are in the heap at a time

// stream is a stream of an Envoy's.
type stream struct {
	relay   *Relay
	envoy   *envoy
	process Process
	header  http.Header // that Envoy has sent
	out     io.Writer
	flush   func() error

	said      map[string]string // of this proxy, beside what Envoy says
	want      lastgood.Header
	node      []byte
	session   *lastgood.Session
	contacted time.Time
	heard     atomic.Int64 // when discovery began its last response, in nanoseconds
}

// request is a request of Envoy's: its message, and what it says.
type request struct {
	message []byte
	lastgood.Request
}

var (
	errAgain  = errors.New("the configuration is recorded anew")
	errBack   = errors.New("discovery answers again")
	errSilent = fmt.Errorf("discovery has begun to answer, and is silent for %v", silence)
)

// run serves the stream until one of the two sides ends it.
func (s *stream) run(ctx context.Context, body io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	incoming := make(chan request)
	go func() { cancel(receive(ctx, body, incoming)) }() // ends with the body, which net/http closes after the handler
	var first request
	select {
	case first = <-incoming:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	first, done, err := s.say(first, func() { cancel(errNews) })
	defer done()
	if err != nil {
		return err
	}
	c := s.relay.config
	s.node = first.Node
	s.want = lastgood.Header{
		Node: first.NodeID, Discovery: net.JoinHostPort(c.Host, strconv.Itoa(c.Port)), Bootstrap: s.process.Bootstrap, Envoy: []byte(first.Envoy),
		Certificate: s.process.Certified,
	}
	if !s.process.Trial {
		s.session, _ = c.Store.Session(uint64(s.envoy.number), s.want, func() { cancel(errAgain) })
		defer s.session.Close()
	}
	return s.ask(ctx, first, incoming)
}

// receive passes on requests until Envoy sends no more.
func receive(ctx context.Context, from io.Reader, requests chan<- request) error {
	for {
		message, err := frame.Read(from, mostRequest)
		if err != nil {
			return fmt.Errorf("the stream of Envoy has ended: %w", err)
		}
		parsed, err := lastgood.ParseRequest(message)
		if err != nil {
			return err
		}
		select {
		case requests <- request{message, parsed}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take notes a request, and returns it as it is passed on.
func (s *stream) take(r request) request {
	recorded := s.session.Request(r.Request)
	s.envoy.request(r.Request, time.Now())
	if !recorded && len(r.Versions) > 0 {
		r.Versions = nil
		r.message, _ = lastgood.WithoutVersions(r.message) // it has been parsed before
	}
	return r
}

// ask passes requests on until discovery answers, or until it is known to be away.
func (s *stream) ask(ctx context.Context, first request, incoming <-chan request) error {
	call := s.relay.open(ctx, s.header)
	defer call.end()
	kept, bytes, sent := []request{s.take(first)}, len(first.message), 0
	silent := time.NewTimer(silence)
	defer silent.Stop()
	for {
		var sends chan<- []byte
		var next []byte
		if sent < len(kept) {
			sends, next = call.sends, kept[sent].message
		}
		from := incoming
		if bytes > mostRequest {
			from = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-from:
			bytes += len(r.message)
			kept = append(kept, s.take(r))
		case sends <- next:
			sent++
		case a := <-call.answered:
			if a.err == nil {
				return s.pass(ctx, call, a, kept[sent:], incoming)
			}
			if ctx.Err() != nil { // the call has ended with the stream: discovery has not failed
				return context.Cause(ctx)
			}
			s.envoy.lost(a.err.Error())
			s.relay.pace.failed(a.err)
			if m := s.memory(); m != nil {
				return s.recall(ctx, m, kept, incoming)
			}
			if full(a.err) {
				s.relay.pace.pause(ctx) // Envoy comes back as soon as its stream ends
			}
			return a.err
		case <-silent.C:
			s.envoy.lost(fmt.Sprintf("discovery has not answered for %v", silence))
			if m := s.memory(); m != nil {
				call.end()
				return s.recall(ctx, m, kept, incoming)
			}
		}
	}
}

// memory returns what is remembered, for an Envoy that needs it; else nil.
func (s *stream) memory() *lastgood.Loaded {
	if s.envoy.whole(time.Now()) {
		return nil
	}
	return s.relay.load(s.want)
}

// pass passes messages on, both ways.
func (s *stream) pass(ctx context.Context, call *call, a answered, rest []request, incoming <-chan request) error {
	defer a.response.Body.Close()
	s.envoy.answered()
	s.relay.pace.answered()
	whole := ctx // where this ends, the call may end, and with it the reading, before what is made of it here
	ctx, cancel := context.WithCancelCause(whole)
	var forwarding sync.WaitGroup
	forwarding.Go(func() {
		defer a.response.Body.Close() // ends the reading below
		s.forward(ctx, call, rest, incoming)
	})
	forwarding.Go(func() { s.attend(ctx, cancel, a.response.Body) })
	defer forwarding.Wait()
	defer cancel(nil)
	buffer := make([]byte, piece)
	for size := a.size; ; {
		s.heard.Store(time.Now().UnixNano())
		if err := s.copy(a.response.Body, size, buffer); err != nil {
			return cmp.Or(context.Cause(ctx), context.Cause(whole), err)
		}
		var err error
		if size, err = nextHead(a.response); err != nil {
			return cmp.Or(context.Cause(ctx), context.Cause(whole), err)
		}
	}
}

// attend ends a stream on which discovery has become silent while Envoy waits for a part of its first configuration: it comes
// back, and gets from memory what it lacks.
func (s *stream) attend(ctx context.Context, end context.CancelCauseFunc, from io.Closer) {
	look := time.NewTicker(silence / 4)
	defer look.Stop()
	for !s.envoy.whole(time.Now()) {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if !s.envoy.waits() || time.Since(time.Unix(0, s.heard.Load())) < silence {
			continue
		}
		if m := s.memory(); m != nil {
			m.Close()
			s.envoy.lost(errSilent.Error())
			end(errSilent)
			from.Close() // ends the reading
			return
		}
	}
}

// forward passes requests on until ctx or the call ends.
func (s *stream) forward(ctx context.Context, call *call, rest []request, incoming <-chan request) {
	contact := time.NewTicker(contactInterval)
	defer contact.Stop()
	for {
		var sends chan<- []byte
		var next []byte
		from := incoming
		if len(rest) > 0 {
			sends, next, from = call.sends, rest[0].message, nil
		}
		select {
		case <-ctx.Done():
			return
		case <-call.ctx.Done():
			return
		case r := <-from:
			rest = append(rest, s.take(r))
		case sends <- next:
			rest = rest[1:]
		case <-contact.C:
			s.session.Contact(time.Now())
		}
	}
}

// copy passes one response on, and records it.
func (s *stream) copy(from io.Reader, size int, buffer []byte) error {
	if now := time.Now(); now.Sub(s.contacted) >= contactPause {
		s.contacted = now
		s.session.Contact(now)
	}
	s.envoy.change(func(state *State) { state.Applying++ })
	if _, err := s.out.Write(frame.Head(size)); err != nil {
		return err
	}
	r := recording{session: s.session, envoy: s.envoy}
	r.begin(size)
	for size > 0 {
		n, err := from.Read(buffer[:min(size, len(buffer))])
		size -= n
		r.write(buffer[:n])
		if size == 0 {
			r.end() // before Envoy can answer: net/http may send the piece at once
		}
		if _, failed := s.out.Write(buffer[:n]); failed != nil {
			err = failed
		}
		if err != nil && (size > 0 || !errors.Is(err, io.EOF)) {
			s.session.Abort()
			return fmt.Errorf("a response ends early: %w", err)
		}
	}
	return s.flush()
}

// recording is the record of one response.
type recording struct {
	session *lastgood.Session
	envoy   *envoy
	scan    scan
	off     bool // it is not recorded
}

func (r *recording) begin(size int) {
	if size > lastgood.MostMessage {
		r.fail(fmt.Errorf("a response of %d bytes, want at most %d", size, lastgood.MostMessage))
		return
	}
	r.session.Begin(size)
}

func (r *recording) write(data []byte) {
	if r.off {
		return
	}
	if err := r.scan.write(data); err != nil {
		r.fail(err)
		return
	}
	if r.secret() {
		r.off = true
		r.session.Abort()
		return
	}
	_, _ = r.session.Write(data) // does not fail
}

func (r *recording) secret() bool {
	return r.scan.resource == lastgood.TypeSecret || r.scan.typeURL == lastgood.TypeSecret
}

func (r *recording) end() {
	if r.off {
		return
	}
	if err := r.scan.end(); err != nil {
		r.fail(err)
		return
	}
	if r.scan.letters > mostNames {
		r.envoy.suffice() // nobody knows what is in it
	}
	r.envoy.sent(r.scan.typeURL, r.scan.nonce, append(r.scan.removals, r.scan.names...))
	r.session.End(r.scan.typeURL, r.scan.nonce, r.scan.names, r.scan.last)
}

func (r *recording) fail(err error) {
	r.off = true
	r.envoy.suffice()
	r.session.Fail(err)
}

var errNews = errors.New("the agent has something else to say of this proxy")

// say adds what the agent says to the first request of a stream, and has news end the stream until done is called.
func (s *stream) say(first request, end func()) (said request, done func(), err error) {
	r := s.relay
	if r.config.Says == nil || first.Node == nil {
		return first, func() {}, nil
	}
	r.mu.Lock()
	s.said = r.config.Says() // under the lock: no news comes in between
	r.streams[s] = end
	r.mu.Unlock()
	first.message, first.Node, err = lastgood.WithMetadata(first.message, first.Node, s.said)
	return first, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.streams, s)
	}, err
}

// Tell has discovery learn what Says returns now: a node does not change within a stream, so each stream on which something else was
// said ends, and Envoy comes back, with the versions of what it has.
func (r *Relay) Tell() {
	now := r.config.Says()
	r.mu.Lock()
	defer r.mu.Unlock()
	for s, end := range r.streams {
		if !maps.Equal(s.said, now) {
			end()
		}
	}
}

const probeTimeout = 10 * time.Second // for the answer to a probe; then another of discovery's addresses is tried

// recall answers from memory, until discovery answers.
func (s *stream) recall(ctx context.Context, m *lastgood.Loaded, kept []request, incoming <-chan request) error {
	defer m.Close()
	s.relay.config.Log.Warn("discovery is away: Envoy gets the last good configuration", "of", m.Contact.UTC().Format(time.RFC3339), "why", s.why())
	s.envoy.change(func(state *State) { state.Serves = m.Contact })
	s.envoy.suffice() // what is remembered has been accepted before
	s.session.Contact(m.Contact)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := make(chan struct{})
	s.relay.calls.Go(func() {
		question := lastgood.Question(s.node, m.Memory.Versions(lastgood.TypeCluster))
		if s.relay.pace.untilAnswered(ctx, func() error { return s.probe(ctx, question) }, s.envoy.lost) {
			close(back)
		}
	})
	answers := lastgood.Answers{Memory: m.Memory}
	for {
		var r request
		if len(kept) > 0 {
			r, kept = kept[0], kept[1:]
		} else {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-back:
				s.relay.config.Log.Info("discovery answers again: Envoy goes back to it")
				return errBack
			case r = <-incoming:
				r = s.take(r)
			}
		}
		if r.Refused {
			s.relay.config.Log.Error("Envoy refuses a part of the last good configuration", "type", r.Type, "err", r.Refusal)
		}
		for _, a := range answers.Request(r.Request) {
			s.envoy.change(func(state *State) { state.Applying++ })
			if err := m.Send(s.out, a, s.session); err != nil {
				return err
			}
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}

func (s *stream) why() (why string) {
	s.envoy.change(func(state *State) { why = state.Why })
	return why
}

// probe asks discovery once.
func (s *stream) probe(ctx context.Context, question []byte) error {
	call := s.relay.open(ctx, s.header)
	defer call.end()
	limit := time.NewTimer(probeTimeout)
	defer limit.Stop()
	sends := call.sends
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case sends <- question:
			sends = nil
		case a := <-call.answered:
			if a.err == nil {
				a.response.Body.Close()
			}
			return a.err
		case <-limit.C:
			return errors.New(fmt.Sprint("discovery has not answered for ", probeTimeout))
		}
	}
}
