package ads

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A push is a trace, if tracing is on:
//
//	push                  from the first change to the last proxy's answer
//	├─ collect            until the mesh was made: the debounce, and its building
//	├─ rebuild view       one for each outbound view
//	│  └─ encode          its new resources
//	└─ proxy              from its first response to its answer for all; with an event for each response and answer
//
// maxTraced is how many proxies of a push have a span of their own; the span of the push holds the number of all
// proxies.
const maxTraced = 32

const scope = "github.com/pilotlight/pilotlight/discovery/ads"

// Trace records pushes as spans of t. It must be called before the first Push; without it nothing is recorded.
func (s *Server) Trace(t trace.TracerProvider) { s.tracer = t.Tracer(scope) }

// silent is a span that records nothing.
func silent() trace.Span { return trace.SpanFromContext(context.Background()) }

// tracePush begins the trace of g. collected is the time when making g began.
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

// under begins a child of a span. If the parent has ended, the child records nothing.
func under(parent trace.Span, name string, at time.Time, about ...attribute.KeyValue) trace.Span {
	if !parent.IsRecording() {
		return silent()
	}
	ctx := trace.ContextWithSpan(context.Background(), parent)
	_, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithTimestamp(at), trace.WithAttributes(about...))
	return span
}

// end closes the trace of a push that all proxies have answered, or that the history drops.
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

// traceResponses records responses in the span of the stream's way to a generation. Held: st.sending.
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

// traceProxy begins the span of one proxy. It records nothing for proxies beyond maxTraced.
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

// traceAnswer records an ACK or a NACK. Held: st.sending.
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
