package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/pilotlight/pilotlight/internal/version"
)

// Target is the destination of traces. OpenTelemetry's own environment variables set the rest (headers, sampling,
// names).
type Target struct {
	endpoint string // base URL of a collector; "" for that of the environment
	wanted   bool   // the environment has a collector, and does not switch traces off
}

// To combines the setting with the collector of the environment, unless the environment switches traces off.
func To(endpoint string, getenv func(string) string) Target {
	named := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	return Target{endpoint, named && getenv("OTEL_TRACES_EXPORTER") != "none" && getenv("OTEL_SDK_DISABLED") != "true"}
}

// Provider returns the tracer provider, nil if there is no collector. The caller calls Flush.
func (t Target) Provider(ctx context.Context, log *slog.Logger) (*trace.TracerProvider, error) {
	var options []otlptracehttp.Option
	switch {
	case t.endpoint != "":
		target, err := url.JoinPath(t.endpoint, "v1", "traces")
		if err != nil {
			return nil, fmt.Errorf("--otlpEndpoint: %w", err)
		}
		options = append(options, otlptracehttp.WithEndpointURL(target))
	case !t.wanted:
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open the trace exporter: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "pilotlight-discovery"), attribute.String("service.version", version.Get().Version),
	), resource.WithFromEnv()) // the environment may set another name
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return trace.NewTracerProvider(trace.WithBatcher(loggedExporter{exporter, log}), trace.WithResource(about)), nil
}

// loggedExporter is an exporter that logs its errors and returns none: an unavailable collector is no error.
type loggedExporter struct {
	trace.SpanExporter
	log *slog.Logger
}

func (e loggedExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn("traces not delivered", "spans", len(spans), "err", err)
	}
	return nil
}

// flushTime is how long a stop waits for a collector.
const flushTime = 2 * time.Second

// Flush sends the remaining spans, and ends the provider.
func Flush(provider *trace.TracerProvider, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := provider.Shutdown(ctx); err != nil {
		log.Warn("traces not delivered", "err", err)
	}
}
