package status

import (
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of a scrape.
const (
	scrapeTimeout      = 10 * time.Second // what a scraper has that does not say: Prometheus's own default
	longestScrape      = time.Minute
	scrapeMargin       = 0.05     // of the time, that is left for the answer to arrive
	envoyShare         = 0.6      // of the time: an Envoy that hangs leaves the rest to the application
	longestEnvoy       = 64 << 20 // bytes; Envoy writes 14 MB for 1,000 clusters
	longestApplication = 16 << 20
	scrapesAtOnce      = 2 // each has 80 KB of buffers, and Envoy's main thread to itself
	scrapesWaiting     = 4
)

// writeGrace is what an answer may take beyond what made it.
const writeGrace = 5 * time.Second

const timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// merger answers with the metrics of Envoy, the agent and the application. Each is streamed, so memory does not grow
// with what they have to tell. It does not compress: what that saves on the wire it costs beside the workload.
type merger struct {
	Config
	running, waiting chan struct{}

	mu       sync.Mutex
	failures map[failure]int
	said     map[string]string // the last fault of a source that was logged
}

// failure is one way in which a source fails.
type failure struct{ source, reason string }

func newMerger(c Config) *merger {
	return &merger{
		Config:  c,
		running: make(chan struct{}, scrapesAtOnce), waiting: make(chan struct{}, scrapesAtOnce+scrapesWaiting),
		failures: map[failure]int{}, said: map[string]string{},
	}
}

func (m *merger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case m.waiting <- struct{}{}:
		defer func() { <-m.waiting }()
	default:
		plain(w, http.StatusServiceUnavailable, "too many scrapes at once")
		return
	}
	limit := timeoutOf(r.Header.Get(timeoutHeader))
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	select {
	case m.running <- struct{}{}:
		defer func() { <-m.running }()
	case <-ctx.Done():
		plain(w, http.StatusServiceUnavailable, "other scrapes take too long")
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit + writeGrace))
	w.Header().Set("Content-Type", textFormat)
	if r.Method != http.MethodHead {
		m.merge(ctx, w, r)
	}
}

// timeoutOf is how long a scraper waits, less a margin.
func timeoutOf(header string) time.Duration {
	limit := scrapeTimeout
	if seconds, err := strconv.ParseFloat(header, 64); err == nil && seconds > 0 {
		limit = time.Duration(min(seconds, longestScrape.Seconds()) * float64(time.Second))
	}
	return limit - time.Duration(scrapeMargin*float64(limit))
}

// outcome is what became of a source in one scrape.
type outcome struct {
	source string
	copied
	took time.Duration
	err  error
}

func (m *merger) merge(ctx context.Context, w io.Writer, r *http.Request) {
	out := newExposition(w)
	defer out.to.Flush()
	envoy := source{"envoy", envoyShare, longestEnvoy, func(ctx context.Context) (*http.Response, error) {
		return m.fromEnvoy(ctx, r.URL.Query())
	}}
	application := source{"application", 1, longestApplication, func(ctx context.Context) (*http.Response, error) {
		return m.Application.scrape(ctx, r.UserAgent())
	}}
	outcomes := []outcome{m.take(ctx, out, envoy)}
	m.Document().writeMetrics(out.to, time.Now())
	if m.Application != nil {
		outcomes = append(outcomes, m.take(ctx, out, application))
	}
	m.writeOutcomes(writer{out.to}, outcomes)
}

// source is one whose metrics are merged.
type source struct {
	name    string
	share   float64 // of the time that is left
	longest int64   // bytes
	ask     func(context.Context) (*http.Response, error)
}

// take copies one source.
func (m *merger) take(ctx context.Context, out *exposition, from source) outcome {
	began := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(time.Duration(from.share*float64(deadline.Sub(began)))))
		defer cancel()
	}
	o := outcome{source: from.name}
	response, err := from.ask(ctx)
	if err == nil {
		var open bool
		if open, err = formatOf(response); err == nil {
			o.copied, err = out.copy(response.Body, from.longest, open)
		}
		response.Body.Close()
	}
	o.took, o.err = time.Since(began), err
	m.judge(o)
	return o
}

var errNoEnvoy = errors.New("no Envoy is running")

func (m *merger) fromEnvoy(ctx context.Context, asked url.Values) (*http.Response, error) {
	admin := m.Envoy()
	if admin == nil {
		return nil, errNoEnvoy
	}
	query := url.Values{}
	for _, name := range []string{"usedonly", "filter"} { // Envoy's own
		if asked.Has(name) {
			query.Set(name, asked.Get(name))
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://envoy/stats/prometheus?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return admin.RoundTrip(request)
}

// formatOf reports whether an answer is OpenMetrics rather than text; what is neither is an error.
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

// refusedError is an answer that is no metrics.
type refusedError struct{ reason, text string }

func (e *refusedError) Error() string { return e.text }

// reasonOf names a fault of a source for a label: few values.
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
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut_short"
	}
	return "unreachable"
}

// judge counts a failure, and says it once.
func (m *merger) judge(o outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fault := ""
	if o.err != nil {
		fault = reasonOf(o.err)
		m.failures[failure{o.source, fault}]++
	}
	if fault != m.said[o.source] && fault != "" && fault != "canceled" {
		m.Log.Warn("scrape without a source", "source", o.source, "reason", fault, "error", o.err)
	}
	m.said[o.source] = fault
}

// writeOutcomes says how each source fared, in this scrape and before.
func (m *merger) writeOutcomes(w writer, outcomes []outcome) {
	each := func(name, help string, value func(outcome) any) {
		w.family(name, "gauge", help)
		for _, o := range outcomes {
			w.sample(name, value(o), "source", o.source)
		}
	}
	up := func(o outcome) any { return number(o.err == nil) }
	each("metrics_source_up", "Whether all of a source's metrics are here.", up)
	each("metrics_source_bytes", "What was read of a source.", func(o outcome) any { return o.bytes })
	dropped := func(o outcome) any { return o.dropped }
	each("metrics_source_dropped_lines", "Lines of a source that no scraper would take.", dropped)
	each("metrics_source_seconds", "How long a source took.", func(o outcome) any { return seconds(o.took) })
	m.mu.Lock()
	failures := maps.Clone(m.failures)
	m.mu.Unlock()
	w.family("metrics_source_failures_total", "counter", "Scrapes that lack a source, or a part of it.")
	byName := func(a, b failure) int { return strings.Compare(a.source+a.reason, b.source+b.reason) }
	for _, f := range slices.SortedFunc(maps.Keys(failures), byName) {
		w.sample("metrics_source_failures_total", failures[f], "source", f.source, "reason", f.reason)
	}
}
