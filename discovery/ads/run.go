package ads

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

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
	delete(s.streams, st)
	newest := s.current.Load().number
	s.mu.Unlock()
	s.reached(reached, newest, time.Now())
	s.metrics.resets.WithLabelValues(cause).Inc()
	s.gone.add(Gone{Node: st.node, At: time.Now(), Cause: cause})
	s.changed()
	return err
}

func (s *Server) add(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.reached = s.current.Load().number // older generations do not wait for this stream
	s.streams[st] = true
}
