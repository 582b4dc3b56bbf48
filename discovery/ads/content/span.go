package content

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

const Scope = "github.com/pilotlight/pilotlight/discovery/ads"

// Silent is a span that records nothing.
func Silent() trace.Span { return trace.SpanFromContext(context.Background()) }

// Child begins a child of a span. If the parent has ended, the child records nothing.
func Child(parent trace.Span, name string, options ...trace.SpanStartOption) trace.Span {
	if !parent.IsRecording() {
		return Silent()
	}
	ctx := trace.ContextWithSpan(context.Background(), parent)
	_, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name, options...)
	return span
}
