package ads

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// refresh gives the session the newest generation.
func (st *stream) refresh() {
	newest := st.hub.current.Load()
	if newest == st.shown && !st.asksMore {
		return // looking up a snapshot costs a copy of the proxy's properties
	}
	st.shown, st.asksMore = newest, false
	st.relocate()
	st.session.Renew(st.shown.Snapshot(st.reader), st.shown.Share, st.hub.meshState(st.shown))
}

// reach records the time when Envoy has answered for all of a generation.
func (st *stream) reach(now time.Time) {
	if st.shown.number > st.reached && !st.ended && st.session.Reached() {
		st.span.End(trace.WithTimestamp(now))
		st.hub.reached(st.reached, st.shown.number, now)
		st.reached, st.at = st.shown.number, now
		st.hub.changed()
	}
}

func (st *stream) push(now time.Time) []protocol.Response {
	_, responses := st.pushIdle(now)
	return responses
}

// pushIdle also reports whether Envoy had answered everything before.
func (st *stream) pushIdle(now time.Time) (idle bool, responses []protocol.Response) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.session == nil || st.ended {
		return true, nil // its first request gets the newest
	}
	idle = st.session.Idle()
	st.refresh()
	responses = st.session.Flush(now)
	st.logWait(now)
	st.reach(now)
	st.arm(now)
	return idle, responses
}

// arm sets the timer for responses that may be sent even if Envoy sends nothing until then.
func (st *stream) arm(now time.Time) {
	switch wake := st.session.Wakes(now); {
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

func (st *stream) send(responses []protocol.Response) error {
	if len(responses) == 0 {
		return nil
	}
	now := time.Now()
	st.mu.Lock()
	follows := st.reached < st.shown.number // else it is new, or requests more
	st.mu.Unlock()
	st.hub.sending(st.shown, responses, follows, now)
	st.traceResponses(st.shown, responses, now)
	for i := range responses {
		r := &responses[i]
		st.log.Debug("push", "node", st.node, "type_url", r.Kind.TypeURL(), "nonce", r.Nonce, "version", r.Version,
			"resources", r.Update.Size())
		if err := st.wire.SendMsg(r); err != nil {
			return err
		}
	}
	return nil
}

// traceResponses records responses in the span of the stream's way to a generation. Held: st.sending.
func (st *stream) traceResponses(g *generation, responses []protocol.Response, now time.Time) {
	if !g.Span.IsRecording() {
		return
	}
	if st.traced != g.number {
		st.span.End(trace.WithTimestamp(now)) // overtaken
		st.traced, st.span = g.number, st.hub.history.traceProxy(g, st.node, now)
	}
	if !st.span.IsRecording() {
		return
	}
	for i := range responses {
		r := &responses[i]
		st.span.AddEvent("send", trace.WithTimestamp(now), trace.WithAttributes(
			attribute.String("type", r.Kind.String()), attribute.String("nonce", r.Nonce), attribute.String("version", r.Version),
			attribute.Int("resources", r.Update.Size()), attribute.Int("bytes", r.Size()),
		))
	}
}

// traceAnswer records an ACK or a NACK. Held: st.sending.
func (st *stream) traceAnswer(k content.Kind, nack *protocol.Nack, now time.Time) {
	if !st.span.IsRecording() {
		return
	}
	about := []attribute.KeyValue{attribute.String("type", k.String())}
	event := "ack"
	if nack != nil {
		event, about = "nack", append(about, attribute.String("error", nack.Text))
		st.span.SetStatus(codes.Error, nack.Text)
	}
	st.span.AddEvent(event, trace.WithTimestamp(now), trace.WithAttributes(about...))
}
