package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/internal/local"
)

// Proxies gives access to the connected proxies, and to the resources that they were sent.
type Proxies interface {
	Clients() []ads.Client
	Pushes() []ads.Push
	Dump(proxy string) (map[string][]json.RawMessage, error)
}

// Pages holds the data of the pages. Its functions are called for each request, from any goroutine.
type Pages struct {
	Awaited func() string      // what discovery waits for before it is ready; "" once it is
	Mesh    func() *model.Mesh // the newest, nil before the first
	Notes   func() []model.Note
	Proxies Proxies
	Config  func() any      // state of the store of configuration
	Sources func() any      // state of each source
	Faults  func() []string // faults that do not make discovery unready: a line for each
	Release func(source string) (groups int, err error)
	// Explain answers a question about one request, with a value and as text for people. One at a time is asked.
	Explain func(question url.Values) (road any, text string, err error)
	// Validate judges files that a caller sends, of MaxSent bytes at most. One at a time is asked.
	Validate func(ctx context.Context, files []byte) (verdict any, err error)
	MaxSent  int64
	// Exposed allows callers from other hosts to see /debug and /v1/registration.
	Exposed bool
	// Page serves the page for people, at / and below /page/; nil for none. Only programs on this host see it, even if
	// the others are exposed.
	Page http.Handler
}

// Handler serves the pages.
func (p Pages) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", p.ready)
	p.addPages(mux, p.guard)
	mux.HandleFunc("GET /{$}", p.front)
	mux.HandleFunc("GET /page/", p.front)
	mux.Handle("GET /debug", p.guard(index))
	mux.Handle("GET /debug/{$}", p.guard(index))
	mux.HandleFunc("POST /debug/release", p.release)
	mux.HandleFunc(iconPath, noIcon)
	p.addProfiles(mux)
	return mux
}

// iconPath is what a browser asks for next to a page that names no icon. An error would be a fault in its console.
const iconPath = "GET /favicon.ico"

func noIcon(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// addPages adds the pages that show the mesh, behind a guard.
func (p Pages) addPages(mux *http.ServeMux, guard func(http.HandlerFunc) http.HandlerFunc) {
	for path, value := range p.values() {
		mux.Handle("GET "+path, guard(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, value()) }))
	}
	mux.Handle("GET /debug/config_dump", guard(p.configDump))
	mux.Handle("GET /debug/explain", guard(p.explain()))
	mux.Handle("POST /debug/validate", guard(p.validate()))
}

// values are the pages that show a value as JSON, by path.
func (p Pages) values() map[string]func() any {
	return map[string]func() any{
		"/v1/registration":   func() any { return registration(p.mesh()) },
		"/debug/registryz":   func() any { return registry(p.mesh()) },
		"/debug/endpointz":   func() any { return registration(p.mesh()) },
		"/debug/configz":     func() any { return objects(p.mesh()) },
		"/debug/config":      func() any { return p.Config() },
		"/debug/sources":     func() any { return p.Sources() },
		"/debug/notes":       func() any { return noted(p.Notes()) },
		"/debug/adsz":        func() any { return p.Proxies.Clients() },
		"/debug/proxies":     func() any { return proxystatus.Of(p.Proxies.Clients(), p.Notes()) },
		"/debug/syncz":       func() any { return syncStates(p.Proxies.Clients()) },
		"/debug/push_status": func() any { return p.Proxies.Pushes() },
	}
}

// ready answers "ready" or the reason why not, and with ?verbose lists the faults to callers on this host.
func (p Pages) ready(w http.ResponseWriter, r *http.Request) {
	text := "ready\n"
	if reason := p.Awaited(); reason != "" {
		text = "not ready: " + reason + "\n"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, text) // a caller that left needs no answer
	if r.URL.Query().Has("verbose") && p.allowed(r) == nil {
		for _, fault := range p.Faults() {
			_, _ = io.WriteString(w, fault+"\n")
		}
	}
}

// Monitoring serves /metrics and /version.
func Monitoring(version any, metrics ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(metrics...)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc(iconPath, noIcon)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, version) })
	return mux
}

func (p Pages) mesh() *model.Mesh {
	if m := p.Mesh(); m != nil {
		return m
	}
	return &model.Mesh{}
}

func (p Pages) configDump(w http.ResponseWriter, r *http.Request) {
	proxy := r.URL.Query().Get("proxyID")
	if proxy == "" {
		http.Error(w, "proxyID is missing, want ?proxyID=NODE", http.StatusBadRequest)
		return
	}
	resources, err := p.Proxies.Dump(proxy)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	writeJSON(w, resources)
}

// release ends the hold of a source. Only programs on this host may ask for it, even if the pages are exposed.
func (p Pages) release(w http.ResponseWriter, r *http.Request) {
	if err := local.Request(r); err != nil {
		http.Error(w, fmt.Sprintf("%s is for programs on this host only: %v", r.URL.Path, err), http.StatusForbidden)
		return
	}
	groups, err := p.Release(r.URL.Query().Get("source"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_, _ = fmt.Fprintf(w, "%d groups are no longer held\n", groups) // a caller that left needs no answer
}

// guard admits only programs on this host; if the pages are exposed, every caller but a page of another site.
func (p Pages) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := p.allowed(r); err != nil {
			http.Error(w, fmt.Sprintf("%s is for programs on this host only: %v", r.URL.Path, err), http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

func (p Pages) allowed(r *http.Request) error {
	if p.Exposed {
		return local.SameOrigin(r)
	}
	return local.Request(r)
}

func writeJSON(w http.ResponseWriter, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, fmt.Sprintf("encode: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a caller that left needs no answer
}

// front shows a browser the page for people, and a program at / the list of pages.
func (p Pages) front(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/" && (p.Page == nil || !strings.Contains(r.Header.Get("Accept"), "text/html")):
		index(w, r)
	case p.Page == nil:
		http.NotFound(w, r)
	default:
		if err := local.Request(r); err != nil {
			http.Error(w, fmt.Sprintf("the page is for browsers on this host only: %v", err), http.StatusForbidden)
			return
		}
		p.Page.ServeHTTP(w, r)
	}
}

// index lists the pages.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, indexText) // a caller that left needs no answer
}

const indexText = `/                               a page of the mesh, for browsers on this host
/ready                          whether discovery is ready; with ?verbose, what is wrong besides
/v1/registration                services with their endpoints
/debug/registryz                services
/debug/endpointz                services with their endpoints, as /v1/registration
/debug/configz                  configuration objects, as they are served
/debug/config                   files of --configDir: objects that are refused, kept or waited for
/debug/sources                  sources, with their faults
/debug/notes                    what is to be said of the configuration
/debug/adsz                     connected proxies
/debug/proxies                  the same with states and notes, the worst first, as discovery status shows them
/debug/syncz                    what each proxy was sent, and has accepted
/debug/push_status              the last pushes
/debug/config_dump?proxyID=ID   the resources that a proxy was sent
/debug/explain?from=A&to=B      what becomes of one request, as discovery explain shows it; with output=text in words
/debug/pprof/                   profiles of discovery itself
/metrics, /version              at --monitoringAddr
`

const (
	answersAfar = 4                // made and sent at a time, each whole in memory
	answerTime  = 30 * time.Second // for a caller to take one
	logRefusals = time.Second      // at most one line in this time
)

// Remote serves the pages that show the mesh to callers from other hosts, over mutual TLS. admit returns why a caller
// gets nothing: the log has that, and the caller hears "refused", whether there is such a page or not. It serves no
// profiles, and releases nothing.
func (p Pages) Remote(admit func(*http.Request) error, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	p.addPages(mux, bounded(make(chan struct{}, answersAfar)))
	mux.HandleFunc(iconPath, noIcon)
	if p.Page != nil {
		mux.Handle("GET /{$}", p.Page)
		mux.Handle("GET /page/", p.Page)
	}
	refusals := &refusals{log: log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // the next request shows its certificate again, which may have ended
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
		if err := errors.Join(direct(r), admit(r)); err != nil {
			refusals.note(r, err, time.Now())
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":"refused"}`+"\n") // a caller that left needs no answer
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// direct returns an error for a request that something has passed on: a gateway of the root namespace has a certificate
// of it too, and must not lend that to the clients before it. Nor may a page of another site use the certificate of a
// browser.
func direct(r *http.Request) error {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id", "Via"} {
		if r.Header.Get(name) != "" {
			return fmt.Errorf("passed on by a proxy: it has the header %s", name)
		}
	}
	return local.SameOrigin(r)
}

// bounded returns a guard that lets some answers be made at a time.
func bounded(places chan struct{}) func(http.HandlerFunc) http.HandlerFunc {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				next(w, r)
			default:
				w.Header().Set("Retry-After", "1")
				http.Error(w, fmt.Sprintf("%d answers are being sent already, come again", cap(places)), http.StatusServiceUnavailable)
			}
		}
	}
}

// refusals are those that the log has not heard of.
type refusals struct {
	log *slog.Logger

	mu    sync.Mutex
	last  time.Time
	since int // not logged
}

func (f *refusals) note(r *http.Request, why error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.last) < logRefusals {
		f.since++
		return
	}
	path := r.URL.Path
	f.log.Warn("page refused at the secure port", "peer", r.RemoteAddr, "path", path[:min(len(path), 100)], "err", why, "more", f.since)
	f.last, f.since = now, 0
}
