package ads

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
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

// spanOf begins the trace of g. collected is the time when making g began. t is nil for none.
func spanOf(t trace.Tracer, g *generation, collected time.Time) trace.Span {
	if t == nil {
		return content.Silent()
	}
	since := g.change.Since
	if since.IsZero() {
		since = collected
	}
	_, span := t.Start(context.Background(), "push", trace.WithNewRoot(), trace.WithTimestamp(since), trace.WithAttributes(
		attribute.Int64("generation", g.number),
		attribute.StringSlice("cause", g.change.Keys),
		attribute.Int("changes", g.change.Count),
	))
	content.Child(span, "collect", trace.WithTimestamp(since)).End(trace.WithTimestamp(collected))
	return span
}
