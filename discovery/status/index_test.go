package status

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// The index lists every page, and only pages that there are.
func TestIndex(t *testing.T) {
	p := Pages{}
	for _, path := range []string{"/", "/debug", "/debug/"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		p.Handler().ServeHTTP(w, r)
		if w.Code != 200 || w.Body.String() != indexText {
			t.Errorf("%s: %d, %s", path, w.Code, w.Body)
		}
	}
	source := regexp.MustCompile(`/(?:debug|v1)/[a-z_/0-9]+`)
	for path := range p.values() {
		if !strings.Contains(indexText, path) {
			t.Errorf("%s is not in the index", path)
		}
	}
	for _, path := range source.FindAllString(indexText, -1) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://192.0.2.1"+path, nil) // of another host: each page refuses it, and no other
		r.RemoteAddr = "192.0.2.7:1"
		p.Handler().ServeHTTP(w, r)
		if w.Code != 403 {
			t.Errorf("%s is in the index, and answers %d", path, w.Code)
		}
	}
}

// A browser on this host gets the page at /, and nobody else does, though the other pages are exposed: not another host, not a page that was made to
// resolve to this one, not a page of another site.
func TestFront(t *testing.T) {
	p := Pages{Exposed: true, Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page of "+r.URL.Path) })}
	for _, row := range []struct{ host, remote, path, accept, site, want string }{
		{"127.0.0.1:8080", "127.0.0.1:1", "/", "text/html,*/*", "none", "page of /"},
		{"localhost:8080", "[::1]:1", "/page/data", "*/*", "same-origin", "page of /page/data"},
		{"127.0.0.1:8080", "127.0.0.1:1", "/", "*/*", "", indexText},
		{"192.0.2.1:8080", "192.0.2.7:1", "/", "text/html", "", "the page is for browsers on this host only: asked from 192.0.2.7:1"},
		{"192.0.2.1:8080", "192.0.2.7:1", "/page/data", "", "", "the page is for browsers on this host only: asked from"},
		{"rebound.test:8080", "127.0.0.1:1", "/", "text/html", "", "the page is for browsers on this host only: asked as host"},
		{"127.0.0.1:8080", "127.0.0.1:1", "/page/events", "text/event-stream", "cross-site", "the page is for browsers on this host only: asked by a page"},
	} {
		r := httptest.NewRequest("GET", "http://"+row.host+row.path, nil)
		r.RemoteAddr = row.remote
		r.Header.Set("Accept", row.accept)
		r.Header.Set("Sec-Fetch-Site", row.site)
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		if !strings.HasPrefix(w.Body.String(), row.want) || (w.Code == 403) != strings.Contains(row.want, "only:") {
			t.Errorf("%+v: %d %s", row, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	Pages{}.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/page/data", nil))
	if w.Code != 404 {
		t.Errorf("without a page: %d", w.Code)
	}
}

// A browser asks each server for an icon next to a page that is not HTML: an error would be a fault in its console.
func TestNoIconIsNoFault(t *testing.T) {
	for name, h := range map[string]http.Handler{
		"this host":  Pages{}.Handler(),
		"afar":       Pages{}.Afar(func(*http.Request) error { return nil }, slog.New(slog.DiscardHandler)),
		"monitoring": Monitoring(nil),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/favicon.ico", nil)) // of another host: to some the pages are exposed
		if w.Code != http.StatusNoContent {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}
