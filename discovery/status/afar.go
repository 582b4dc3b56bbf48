package status

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/internal/local"
)

const (
	answersAfar = 4                // made and sent at a time, each whole in memory
	answerTime  = 30 * time.Second // for a caller to take one
	logRefusals = time.Second      // at most one line in this time
)

// Afar serves the pages that show the mesh to callers from other hosts, over mutual TLS. admit returns why a caller gets nothing: the log has
// that, and the caller hears "refused", whether there is such a page or not. It serves no profiles, and releases nothing.
func (p Pages) Afar(admit func(*http.Request) error, log *slog.Logger) http.Handler {
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

// direct returns an error for a request that something has passed on: a gateway of the root namespace has a certificate of it too, and must not
// lend that to the clients before it. Nor may a page of another site use the certificate of a browser.
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
