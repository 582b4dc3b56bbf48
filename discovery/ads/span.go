package ads

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/pilotlight/pilotlight/discovery/ads"

// silent is a span that records nothing.
func silent() trace.Span { return trace.SpanFromContext(context.Background()) }

// child begins a child of a span. If the parent has ended, the child records nothing.
func child(parent trace.Span, name string, options ...trace.SpanStartOption) trace.Span {
	if !parent.IsRecording() {
		return silent()
	}
	ctx := trace.ContextWithSpan(context.Background(), parent)
	_, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
	return span
}
