package status

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFront(t *testing.T) {
	envoy := transport(func(r *http.Request) (*http.Response, error) {
		body := r.Method + " " + r.URL.RequestURI()
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
	})
	running := func() http.RoundTripper { return envoy }
	gone := func() http.RoundTripper { return nil }
	for _, test := range []struct {
		name         string
		admin        func() http.RoundTripper
		method, path string
		status       int
		body         string
	}{
		{"reads are forwarded", running, "GET", "/stats?filter=x", 200, "GET /stats?filter=x"},
		{"a harmless change is forwarded", running, "POST", "/logging?level=debug", 200, "POST /logging?level=debug"},
		{"what would end Envoy is refused", running, "POST", "/quitquitquit", 403, "POST /quitquitquit is not forwarded"},
		{"so is what would drain it", running, "POST", "/drain_listeners", 403, "not forwarded"},
		{"and any other method", running, "DELETE", "/stats", 403, "not forwarded"},
		{"no Envoy", gone, "GET", "/ready", 503, "no Envoy is running"},
	} {
		t.Run(test.name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			Front(test.admin, slog.New(slog.DiscardHandler)).ServeHTTP(recorder, httptest.NewRequest(test.method, test.path, nil))
			if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.body) {
				t.Errorf("got %d %q, want %d %q", recorder.Code, recorder.Body, test.status, test.body)
			}
		})
	}
}
