package metrics

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/internal/connlimit"
)

// Bounds of a scrape.
const (
	scrapeTimeout      = 10 * time.Second // for a scraper that sends no timeout: Prometheus's default
	longestScrape      = time.Minute
	scrapeMargin       = 0.05     // share of the time that is left for the answer to arrive
	envoyShare         = 0.6      // share of the time: an Envoy that hangs leaves the rest to the application
	longestEnvoy       = 64 << 20 // bytes; Envoy writes 14 MB for 1,000 clusters
	longestApplication = 16 << 20
	scrapesAtOnce      = 2 // each has 80 KB of buffers, and occupies Envoy's main thread
	scrapesWaiting     = 4
	writeStall         = 2 * time.Second // for a piece of some KB: a scraper that does not read makes others wait as long
)

// writeGrace is how long the writing of an answer may take beyond the time of the scrape.
const writeGrace = 5 * time.Second

const timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// EnvoyTimeout is how long an answer of Envoy's admin may take: some are long, and some clients read slowly.
const EnvoyTimeout = time.Minute

// Config has the sources that are merged.
type Config struct {
	Envoy       func() http.RoundTripper          // to the admin of the epoch that serves; nil while none runs
	Agent       func(to io.Writer, now time.Time) // writes the agent's own metrics
	Application *Application                      // nil for none
	Workload    Workload                          // of Istio's metrics
	Log         *slog.Logger
}

// Handler answers scrapes with the metrics of all sources in one text. It has the limits of all scrapes together.
func Handler(c Config) http.Handler { return newMerger(c) }

// merger answers with the metrics of Envoy, the agent and the application. Each is streamed, so memory does not grow
// with their answers. It does not compress: that would cost the workload processor time.
type merger struct {
	Config
	running chan struct{}
	asked   chan struct{} // a place for each request that Envoy has not answered yet

	mu       sync.Mutex
	scrapes  []*scrape // oldest first: those that run, and those that wait
	failures map[failure]int
	said     map[string]string // the last fault of a source that was logged
}

func newMerger(c Config) *merger {
	return &merger{
		Config:   c,
		running:  make(chan struct{}, scrapesAtOnce),
		asked:    make(chan struct{}, scrapesAtOnce),
		failures: map[failure]int{}, said: map[string]string{},
	}
}

// scrape is one that runs or waits.
type scrape struct {
	source netip.Prefix
	end    context.CancelFunc
}

var errRoom = errors.New("too many scrapes at once")

func (m *merger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit := timeoutOf(r.Header.Get(timeoutHeader))
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	remote, _ := netip.ParseAddrPort(r.RemoteAddr) // none of a Unix socket
	s := &scrape{connlimit.SourceOf(remote.Addr().Unmap()), cancel}
	if !m.admit(s) {
		http.Error(w, errRoom.Error(), http.StatusServiceUnavailable)
		return
	}
	defer m.leave(s)
	select {
	case m.running <- struct{}{}:
		defer func() { <-m.running }()
	case <-ctx.Done():
		http.Error(w, "other scrapes take too long", http.StatusServiceUnavailable)
		return
	}
	out := reader{w, http.NewResponseController(w), time.Now().Add(limit + writeGrace), cancel}
	w.Header().Set("Content-Type", TextFormat)
	if r.Method != http.MethodHead {
		m.merge(ctx, out, r)
	}
	out.extend() // for what net/http still has to write
}

// admit takes a scrape in. Where there is no room the newest one of the source with the most leaves, which may be this one.
func (m *merger) admit(s *scrape) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scrapes = append(m.scrapes, s)
	if len(m.scrapes) <= scrapesAtOnce+scrapesWaiting {
		return true
	}
	var among []connlimit.Guest
	for _, one := range m.scrapes {
		among = append(among, connlimit.Guest{Source: one.source, Served: true})
	}
	i := connlimit.Victim(among, connlimit.Lasts)
	leaves := m.scrapes[i]
	m.scrapes = slices.Delete(m.scrapes, i, i+1)
	leaves.end()
	return leaves != s
}

func (m *merger) leave(s *scrape) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scrapes = slices.DeleteFunc(m.scrapes, func(one *scrape) bool { return one == s })
}

// reader is a scraper's end of an answer. One that does not read loses its place to others after a while.
type reader struct {
	http.ResponseWriter
	control *http.ResponseController
	latest  time.Time // at which all must be written
	end     context.CancelFunc
}

func (r reader) extend() {
	deadline := time.Now().Add(writeStall)
	if r.latest.Before(deadline) {
		deadline = r.latest
	}
	_ = r.control.SetWriteDeadline(deadline)
}

func (r reader) Write(p []byte) (int, error) {
	r.extend()
	n, err := r.ResponseWriter.Write(p)
	if err != nil {
		r.end()
	}
	return n, err
}

// timeoutOf returns how long a scraper waits, less a margin.
func timeoutOf(header string) time.Duration {
	limit := scrapeTimeout
	if seconds, err := strconv.ParseFloat(header, 64); err == nil && seconds > 0 {
		limit = time.Duration(min(seconds, longestScrape.Seconds()) * float64(time.Second))
	}
	return limit - time.Duration(scrapeMargin*float64(limit))
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
	out.istio = newIstio(m.Workload)
	outcomes := []outcome{m.mergeFrom(ctx, out, envoy)}
	m.Agent(out.to, time.Now())
	out.istio.write(Writer{out.to})
	out.istio = nil
	if m.Application != nil {
		outcomes = append(outcomes, m.mergeFrom(ctx, out, application))
	}
	m.writeOutcomes(Writer{out.to}, outcomes)
}

// source is a source of metrics.
type source struct {
	name    string
	share   float64 // of the time that is left
	longest int64   // bytes
	ask     func(context.Context) (*http.Response, error)
}

// mergeFrom copies the metrics of one source.
func (m *merger) mergeFrom(ctx context.Context, out *exposition, from source) outcome {
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

// fromEnvoy asks Envoy. Its main thread makes each answer as a whole, also one for a scraper that has left, so the place is free when Envoy has
// answered, and no sooner.
func (m *merger) fromEnvoy(ctx context.Context, asked url.Values) (*http.Response, error) {
	admin := m.Envoy()
	if admin == nil {
		return nil, errNoEnvoy
	}
	query := url.Values{}
	for _, name := range []string{"usedonly", "filter"} { // parameters of Envoy's admin
		if asked.Has(name) {
			query.Set(name, asked.Get(name))
		}
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), EnvoyTimeout)
	request, err := http.NewRequestWithContext(bounded, http.MethodGet, "http://envoy/stats/prometheus?"+query.Encode(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	select {
	case m.asked <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
	type answer struct {
		response *http.Response
		err      error
	}
	answered := make(chan answer, 1)
	go func() {
		response, err := admin.RoundTrip(request)
		<-m.asked
		answered <- answer{response, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil {
			cancel()
			return nil, a.err
		}
		context.AfterFunc(ctx, cancel) // from here on the scraper's time counts
		a.response.Body = readBody{a.response.Body, cancel}
		return a.response, nil
	case <-ctx.Done():
		go func() {
			defer cancel()
			if a := <-answered; a.err == nil {
				a.response.Body.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// readBody is an answer of Envoy's, whose connection ends when it was read.
type readBody struct {
	io.ReadCloser
	end func()
}

func (b readBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

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
