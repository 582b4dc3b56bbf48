package ads

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A push is a trace, where somebody wants one:
//
//	push                  from the first change to the last proxy's answer
//	├─ collect            until the mesh was made: the debounce, and its building
//	├─ rebuild view       one for each outbound view
//	│  └─ encode          what is new in it
//	└─ proxy              from its first response to its answer for all; with an event for each response and answer
//
// maxTraced is how many proxies of a push have a span of their own; the push says how many it was for.
const maxTraced = 32

const scope = "github.com/pilotlight/pilotlight/discovery/ads"

// Trace makes pushes spans of t. To be called before the first Push; without it nothing is recorded.
func (s *Server) Trace(t trace.TracerProvider) { s.tracer = t.Tracer(scope) }

// silent is a span that records nothing.
func silent() trace.Span { return trace.SpanFromContext(context.Background()) }

// tracePush begins the trace of g, whose making began at the time given.
func (s *Server) tracePush(g *generation, collected time.Time) {
	if s.tracer == nil {
		return
	}
	since := g.change.Since
	if since.IsZero() {
		since = collected
	}
	_, g.span = s.tracer.Start(context.Background(), "push", trace.WithNewRoot(), trace.WithTimestamp(since), trace.WithAttributes(
		attribute.Int64("generation", g.number),
		attribute.StringSlice("cause", g.change.Keys),
		attribute.Int("changes", g.change.Count),
	))
	under(g.span, "collect", since).End(trace.WithTimestamp(collected))
}

// under begins a part of a span that may have ended: then the part is silent.
func under(parent trace.Span, name string, at time.Time, about ...attribute.KeyValue) trace.Span {
	if !parent.IsRecording() {
		return silent()
	}
	ctx := trace.ContextWithSpan(context.Background(), parent)
	_, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithTimestamp(at), trace.WithAttributes(about...))
	return span
}

// end closes the trace of a push that nobody waits for any more, or that is forgotten.
func (r *record) end(now time.Time) {
	if !r.span.IsRecording() {
		return
	}
	for kind, n := range r.Responses {
		r.span.SetAttributes(attribute.Int("responses."+kind, n))
	}
	r.span.SetAttributes(
		attribute.Int("proxies", r.proxies), attribute.Int("proxies.waiting", r.Waiting),
		attribute.Int64("views.rebuilt", r.work.rebuilt.total()), attribute.Int64("resources.encoded", r.work.encoded.total()),
		attribute.StringSlice("resources.encoded.first", r.work.encoded.first()),
	)
	r.span.End(trace.WithTimestamp(now))
}

// traceResponses notes what is sent in the span of the stream's way to a generation. Held: st.sending.
func (st *stream) traceResponses(g *generation, responses []response, now time.Time) {
	if !g.span.IsRecording() {
		return
	}
	if st.traced != g.number {
		st.span.End(trace.WithTimestamp(now)) // overtaken
		st.traced, st.span = g.number, st.server.history.traceProxy(g, st.node, now)
	}
	if !st.span.IsRecording() {
		return
	}
	for i := range responses {
		r := &responses[i]
		st.span.AddEvent("send", trace.WithTimestamp(now), trace.WithAttributes(
			attribute.String("type", r.kind.String()), attribute.String("nonce", r.nonce), attribute.String("version", r.version),
			attribute.Int("resources", r.news.size()), attribute.Int("bytes", r.size()),
		))
	}
}

// traceProxy begins the span of one proxy, silent for those beyond the first few.
func (h *history) traceProxy(g *generation, node string, now time.Time) trace.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pushes {
		if p.Generation == g.number && p.traced < maxTraced {
			p.traced++
			return under(g.span, "proxy", now, attribute.String("node", node))
		}
	}
	return silent()
}

// traceAnswer notes an ACK or a NACK. Held: st.sending.
func (st *stream) traceAnswer(k kind, nack *Nack, now time.Time) {
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
