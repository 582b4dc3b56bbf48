package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// mesh stands for the sidecars: a proxy that sends each host to one handler and remembers what was asked.
type mesh struct {
	*httptest.Server
	handlers map[string]http.Handler

	mu    sync.Mutex
	asked map[string]http.Header // the last request's header, by host
}

func newMesh(t *testing.T) *mesh {
	m := &mesh{handlers: map[string]http.Handler{}, asked: map[string]http.Header{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *mesh) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked[r.Host] = r.Header.Clone()
	handler := m.handlers[r.Host]
	m.mu.Unlock()
	if handler == nil {
		http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		return
	}
	handler.ServeHTTP(w, r)
}

// add runs a service and lets host, "name:port", reach it.
func (m *mesh) add(t *testing.T, host, service, version string) http.Handler {
	t.Helper()
	proxy, err := url.Parse(m.URL)
	if err != nil {
		t.Fatal(err)
	}
	up := newUpstream(http.ProxyURL(proxy))
	t.Cleanup(up.client.CloseIdleConnections)
	handler, err := newService(service, version, up)
	if err != nil {
		t.Fatal(err)
	}
	m.handlers[host] = handler
	return handler
}

func get(handler http.Handler, path string, header http.Header) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	for name, values := range header {
		request.Header[name] = values
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

func TestProduct(t *testing.T) {
	tests := []struct {
		name   string
		broken string // the host that does not answer
		review string // the version of reviews
		status int
		api    []string // what the JSON holds
		html   []string // what the page shows
	}{
		{
			name: "reviews v1", review: "v1", status: 200,
			api:  []string{`"title":"The Comedy of Errors"`, `"reviews":{"version":"v1"`},
			html: []string{"<h1>The Comedy of Errors</h1>", "served by reviews v1", "Sign in as jason"},
		},
		{
			name: "reviews v2", review: "v2", status: 200,
			api:  []string{`"reviews":{"version":"v2"`, `"stars":5`, `"stars":4`},
			html: []string{"served by reviews v2", "★★★★★", "★★★★☆"},
		},
		{
			name: "no details", review: "v1", broken: "details:9080", status: 502,
			api:  []string{`"detailsError":{"status":503`, `"reviews":{"version":"v1"`},
			html: []string{"Details are not available", "503: ", "served by reviews v1"},
		},
		{
			name: "no reviews", review: "v1", broken: "reviews:9080", status: 502,
			api:  []string{`"reviewsError":{"status":503`, `"title":"The Comedy of Errors"`},
			html: []string{"Reviews are not available", "503: ", "<h1>The Comedy of Errors</h1>"},
		},
		{
			name: "no ratings", review: "v2", broken: "ratings:9080", status: 502,
			api:  []string{`"ratingsError":{"status":503`, `"reviewer":"Reviewer1"`},
			html: []string{"served by reviews v2", "503: ", "Reviewer1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMesh(t)
			page := m.add(t, "productpage:9080", "productpage", "v1")
			m.add(t, "details:9080", "details", "v1")
			m.add(t, "reviews:9080", "reviews", tt.review)
			m.add(t, "ratings:9080", "ratings", "v1")
			delete(m.handlers, tt.broken)

			api, html := get(page, "/api/v1/products/0", nil), get(page, "/productpage", nil)
			if api.Code != tt.status || html.Code != http.StatusOK {
				t.Errorf("status of the API %d and the page %d, want %d and 200", api.Code, html.Code, tt.status)
			}
			contains(t, api.Body.String(), tt.api)
			contains(t, html.Body.String(), tt.html)
			if !json.Valid(api.Body.Bytes()) {
				t.Errorf("not JSON: %s", api.Body)
			}
		})
	}
}

func contains(t *testing.T, text string, want []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("lacks %q:\n%s", w, text)
		}
	}
}

// Headers of a request reach the last service of the chain; headers of a hop do not.
func TestForwardedHeaders(t *testing.T) {
	m := newMesh(t)
	page := m.add(t, "productpage:9080", "productpage", "v1")
	m.add(t, "reviews:9080", "reviews", "v2")
	m.add(t, "ratings:9080", "ratings", "v1")

	in := http.Header{"Cookie": {"user=jason"}, "Authorization": {"secret"}}
	want := http.Header{"End-User": {"jason"}}
	for _, name := range forwarded[1:] {
		in.Set(name, name+" value")
		want.Set(name, name+" value")
	}
	get(page, "/api/v1/products/0", in)

	for _, host := range []string{"details:9080", "reviews:9080", "ratings:9080"} {
		got := m.asked[host].Clone()
		for _, hop := range []string{"User-Agent", "Accept-Encoding", "Proxy-Connection"} {
			got.Del(hop)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("header at %s (-want +got):\n%s", host, diff)
		}
	}
}

func TestSignInAndOut(t *testing.T) {
	m := newMesh(t)
	server := httptest.NewServer(m.add(t, "productpage:9080", "productpage", "v1"))
	defer server.Close()
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	defer client.CloseIdleConnections()

	for _, step := range []struct{ path, want string }{
		{"/login", "signed in as jason"},
		{"/logout", "Sign in as jason"},
	} {
		response, err := client.PostForm(server.URL+step.path, url.Values{"user": {"jason"}})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		contains(t, string(body), []string{step.want})
	}
}

func TestUpstreamThatIsNotThere(t *testing.T) {
	m := newMesh(t)
	page := m.add(t, "productpage:9080", "productpage", "v1")
	m.Close()
	answer := get(page, "/api/v1/products/0", nil)
	if answer.Code != http.StatusBadGateway {
		t.Errorf("status %d, want 502", answer.Code)
	}
	contains(t, answer.Body.String(), []string{`"detailsError":{"status":0,"error":`, "connection refused"})
}

func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	tests := []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"asked to stop", []string{"-service", "ratings", "-listen", "127.0.0.1:0"}, 0, "serving"},
		{"no service", nil, 2, `-service "": want productpage, details, reviews or ratings`},
		{"no such version", []string{"-service", "reviews", "-version", "v3"}, 2, `-version "v3": want v1 or v2`},
		{"no such flag", []string{"-port", "1"}, 2, "-port"},
		{"bad address", []string{"-service", "ratings", "-listen", "127.0.0.1:nope"}, 1, "nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(stopped, tt.args, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			contains(t, stderr.String(), []string{tt.stderr})
		})
	}
}

func TestHealth(t *testing.T) {
	for _, service := range []string{"productpage", "details", "reviews", "ratings"} {
		if got := get(newMesh(t).add(t, service, service, "v2"), "/health", nil); got.Code != http.StatusOK {
			t.Errorf("%s: status %d, want 200", service, got.Code)
		}
	}
}
