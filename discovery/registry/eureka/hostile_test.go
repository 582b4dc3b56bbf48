package eureka

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A redirection to another server is not followed, and one on the same server is.
func TestRedirections(t *testing.T) {
	var asked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/out"):
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/moved"):
			http.Redirect(w, r, "/eureka/apps", http.StatusFound)
		default:
			fmt.Fprint(w, `{"applications": {"apps__hashcode": "", "application": []}}`)
		}
	}))
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = stay
	if _, err := ask(t.Context(), client, server.URL+"/out", "/apps"); err == nil || !strings.Contains(err.Error(), "is not followed: want the URL of Eureka itself") {
		t.Errorf("another server: %v", err)
	}
	if _, err := ask(t.Context(), client, server.URL+"/moved", "/apps"); err != nil {
		t.Errorf("the same server: %v", err)
	}
	if asked.Load() {
		t.Error("the other server was asked")
	}
	s := New(Config{URLs: []string{server.URL + "/out"}, Interval: time.Second}, slog.New(slog.DiscardHandler))
	if err := s.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "is not followed") {
		t.Errorf("a run ends with %v", err)
	}
}

// An answer that is too long is an error that says so.
func TestEndlessAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"applications": {"application": [{"name": "`)
		for block := strings.Repeat("x", 1<<20); ; {
			if _, err := fmt.Fprint(w, block); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	if _, err := ask(t.Context(), server.Client(), server.URL, "/apps"); err == nil || !strings.Contains(err.Error(), "the answer is longer than 64 MiB") {
		t.Errorf("%v", err)
	}
}

// A Eureka without any instance is said to have none, while discovery waits for the first; then that is no fault any more.
func TestAnEmptyEurekaIsSaid(t *testing.T) {
	f := newFake(t)
	s := f.source()
	s.settle = time.Hour
	run := follower(t, s)
	u := run.next()
	if g := u.Groups[emptyKey]; u.Synced || !g.Malformed() || !strings.HasPrefix(g.Faults[0], "Eureka has no instance: an answer without any counts after 1h0m0s") {
		t.Errorf("it tells %+v", u)
	}
	f.put(instanceOf("web", "1", "10.0.0.1", 80))
	u = run.next()
	if g, cleared := u.Groups[emptyKey]; !u.Synced || !cleared || !g.Empty() || u.Groups["web.service.eureka"].Len() != 1 {
		t.Errorf("then it tells %+v", u)
	}
}
