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
