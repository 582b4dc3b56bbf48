package metrics

import (
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"time"
)

// outcome is the result of one source in one scrape.
type outcome struct {
	source string
	copied
	took time.Duration
	err  error
}

// failure identifies a kind of failure of a source.
type failure struct{ source, reason string }

// formatOf reports whether an answer is OpenMetrics rather than text; an answer that is neither is an error.
func formatOf(r *http.Response) (open bool, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch encoding := r.Header.Get("Content-Encoding"); {
	case r.StatusCode != http.StatusOK:
		return false, &refusedError{"status", r.Status}
	case encoding != "" && encoding != "identity":
		return false, &refusedError{"encoding", "content encoding " + encoding + ", asked for none"}
	case kind == "application/openmetrics-text":
		return true, nil
	case kind == "" || kind == "text/plain":
		return false, nil
	}
	text := "content type " + kind + ", want text/plain or application/openmetrics-text"
	return false, &refusedError{"content_type", text}
}

// refusedError is the error for an answer without metrics.
type refusedError struct{ reason, text string }

func (e *refusedError) Error() string { return e.text }

// reasonOf returns the fault of a source as a label with few possible values.
func reasonOf(err error) string {
	var refused *refusedError
	var timeout net.Error
	switch {
	case errors.Is(err, errNoEnvoy):
		return "absent"
	case errors.As(err, &refused):
		return refused.reason
	case errors.Is(err, errTooLong):
		return "too_long"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled), errors.Is(err, errGone):
		return "canceled"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut_short"
	}
	return "unreachable"
}

// judge counts a failure, and logs it once.
func (m *merger) judge(o outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fault := ""
	if o.err != nil {
		fault = reasonOf(o.err)
		m.failures[failure{o.source, fault}]++
	}
	if fault != m.said[o.source] && fault != "" && fault != "canceled" {
		m.Log.Warn("source of metrics not scraped", "source", o.source, "reason", fault, "err", o.err)
	}
	m.said[o.source] = fault
}

// writeOutcomes writes the results of each source, in this scrape and before.
func (m *merger) writeOutcomes(w Writer, outcomes []outcome) {
	each := func(name, help string, value func(outcome) any) {
		w.Family(name, "gauge", help)
		for _, o := range outcomes {
			w.Sample(name, value(o), "source", o.source)
		}
	}
	up := func(o outcome) any { return Number(o.err == nil) }
	each("metrics_source_up", "Whether all of a source's metrics are here.", up)
	each("metrics_source_bytes", "What was read of a source.", func(o outcome) any { return o.bytes })
	dropped := func(o outcome) any { return o.dropped }
	each("metrics_source_dropped_lines", "Lines of a source that no scraper would take.", dropped)
	each("metrics_source_seconds", "How long a source took.", func(o outcome) any { return o.took.Round(time.Millisecond).Seconds() })
	m.mu.Lock()
	failures := maps.Clone(m.failures)
	m.mu.Unlock()
	w.Family("metrics_source_failures_total", "counter", "Scrapes that lack a source, or a part of it.")
	byName := map[string]failure{}
	for f := range failures {
		byName[f.source+"\x00"+f.reason] = f
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		f := byName[name]
		w.Sample("metrics_source_failures_total", failures[f], "source", f.source, "reason", f.reason)
	}
}
