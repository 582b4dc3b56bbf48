package status

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestFront(t *testing.T) {
	byEnvoy := func(r *http.Request) { r.RemoteAddr = "127.0.0.1:1" }
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
		change       func(*http.Request)
		status       int
		body         string
	}{
		{"reads are forwarded", running, "GET", "/stats?filter=x", nil, 200, "GET /stats?filter=x"},
		{"a head is", running, "HEAD", "/stats", nil, 200, ""},
		{"a harmless change is for the owner's socket", running, "POST", "/logging?level=debug", nil, 403, "agent request takes POST"},
		{"from elsewhere", running, "GET", "/stats", func(r *http.Request) { r.RemoteAddr = "127.0.0.6:40000" }, 403, "asked from 127.0.0.6"},
		{"DNS rebinding", running, "GET", "/stats", func(r *http.Request) { r.Host = "evil.example:15000" }, 403, `host "evil.example:15000"`},
		{"another site's page", running, "GET", "/stats", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403, "page"},
		{"what would end Envoy is refused", running, "POST", "/quitquitquit", nil, 403, "POST /quitquitquit is not forwarded"},
		{"so is what would drain it", running, "POST", "/drain_listeners", nil, 403, "not forwarded"},
		{"and any other method", running, "DELETE", "/stats", nil, 403, "not forwarded"},
		{"Envoy itself", running, "GET", "/config_dump", byEnvoy, 403, "sent by Envoy"},
		{"Envoy's listener for Prometheus", running, "GET", "/stats/prometheus", byEnvoy, 200, "GET /stats/prometheus"},
		{"a program that has gone", running, "GET", "/stats", func(r *http.Request) { r.RemoteAddr = "127.0.0.1:2" }, 403, "gone"},
		{"no Envoy", gone, "GET", "/ready", nil, 503, "no Envoy is running"},
	} {
		t.Run(test.name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			request := received(test.method, test.path)
			request.RemoteAddr, request.Host = "127.0.0.1:40000", "localhost:15000"
			if test.change != nil {
				test.change(request)
			}
			Config{Envoy: test.admin, Envoys: ports{}, Scraped: true, Log: slog.New(slog.DiscardHandler)}.front().ServeHTTP(recorder, request)
			if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.body) {
				t.Errorf("got %d %q, want %d %q", recorder.Code, recorder.Body, test.status, test.body)
			}
		})
	}
	request, recorder := received("GET", "/stats/prometheus"), httptest.NewRecorder()
	request.RemoteAddr, request.Host = "127.0.0.1:1", "localhost:15000"
	Config{Envoy: running, Envoys: ports{}, Log: slog.New(slog.DiscardHandler)}.front().ServeHTTP(recorder, request)
	if recorder.Code != http.StatusForbidden {
		t.Errorf("Envoy has no listener for Prometheus, and reads the metrics: %d", recorder.Code)
	}
}

// Envoy makes one answer at a time for 64 readers, also for those that have left, so that its probes wait for one at most.
func TestReadersTakeTurns(t *testing.T) {
	var busy, left atomic.Int32
	entered, release := make(chan struct{}), make(chan struct{})
	envoy := transport(func(r *http.Request) (*http.Response, error) {
		busy.Add(1)
		defer busy.Add(-1)
		entered <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
			left.Add(1)
			<-release
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("dump")), Header: http.Header{}}, nil
	})
	c := Config{Envoy: func() http.RoundTripper { return envoy }, Envoys: ports{}, Log: slog.New(slog.DiscardHandler)}
	l, err := ListenFront(0)
	if err != nil {
		t.Fatal(err)
	}
	server := NewFrontServer(c.front(), c.Log)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	get := func(ctx context.Context) (status int) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+"/config_dump", nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	var readers sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	for range 64 {
		readers.Go(func() { get(ctx) })
	}
	<-entered
	leave()
	readers.Wait()
	last := make(chan int)
	go func() { last <- get(t.Context()) }()
	for release <- struct{}{}; ; release <- struct{}{} {
		select {
		case <-entered:
			if n := busy.Load(); n > 1 {
				t.Fatalf("Envoy makes %d answers at once", n)
			}
		case status := <-last:
			if status != http.StatusOK || left.Load() > 0 {
				t.Errorf("the last reader has status %d; %d answers were given up while Envoy made them", status, left.Load())
			}
			return
		}
	}
}
