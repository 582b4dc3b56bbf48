package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/agent"
)

func TestOnlyLocalProgramsControl(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		status int
		body   string
	}{
		{"a program on this host", func(*http.Request) {}, 200, ""},
		{"by IPv6", func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:40000", "[::1]:15020" }, 200, ""},
		{"by IPv4 at a listener of both", func(r *http.Request) { r.RemoteAddr = "[::ffff:127.0.0.1]:40000" }, 200, ""},
		{"by name, without a port", func(r *http.Request) { r.Host = "localhost" }, 200, ""},
		{"a GET", func(r *http.Request) { r.Method = "GET" }, 405, "want POST"},
		{"from elsewhere", func(r *http.Request) { r.RemoteAddr = "10.0.0.7:40000" }, 403, "asked from 10.0.0.7:40000"},
		{"DNS rebinding", func(r *http.Request) { r.Host = "evil.example:15020" }, 403, `asked as host "evil.example:15020"`},
		{"traffic that Envoy passes in", func(r *http.Request) { r.RemoteAddr = "127.0.0.6:40000" }, 403, "asked from 127.0.0.6:40000"},
		{"a browser, of its own page", header("Origin", "http://127.0.0.1:15020"), 403, "browser"},
		{"a browser, of another's", header("Sec-Fetch-Site", "cross-site"), 403, "page of another site"},
		{"through a proxy", header("X-Forwarded-For", "10.0.0.7"), 403, "passed on by a proxy"},
		{"by Envoy, without a header", func(r *http.Request) { r.RemoteAddr = "127.0.0.1:1" }, 403, "sent by Envoy"},
		{"by Envoy over IPv6", func(r *http.Request) { r.RemoteAddr = "[::1]:1" }, 403, "sent by Envoy"},
		{"by a program that has gone", func(r *http.Request) { r.RemoteAddr = "127.0.0.1:2" }, 403, "it may have been sent by Envoy: gone"},
	} {
		for _, path := range []string{"/drain", "/undrain", "/quitquitquit"} {
			t.Run(test.name+path, func(t *testing.T) {
				c := configOf(t, serving())
				quits := 0
				c.Quit = func() { quits++ }
				request := received("POST", path)
				request.RemoteAddr, request.Host = "127.0.0.1:40000", "127.0.0.1:15020"
				test.change(request)
				recorder := httptest.NewRecorder()
				Handler(c).ServeHTTP(recorder, request)
				if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.body) {
					t.Errorf("got %d %q, want %d %q", recorder.Code, recorder.Body, test.status, test.body)
				}
				if want := test.status == 200 && path == "/quitquitquit"; (quits == 1) != want {
					t.Errorf("quit %d times, want %v", quits, want)
				}
			})
		}
	}
}

func TestCommands(t *testing.T) {
	for path, want := range map[string]agent.Command{"/drain": agent.Drain, "/undrain": agent.Resume} {
		askCh := make(chan agent.Ask)
		asked := make(chan agent.Command, 1)
		go func() {
			ask := <-askCh
			asked <- ask.Command
			close(ask.Taken)
		}()
		c := configOf(t, serving())
		c.AskCh = askCh
		request := received("POST", path)
		request.RemoteAddr, request.Host = "127.0.0.1:40000", "127.0.0.1:15020"
		recorder := httptest.NewRecorder()
		Handler(c).ServeHTTP(recorder, request)
		if got := <-asked; got != want || recorder.Code != 200 {
			t.Errorf("%s: command %q, status %d; want %q, 200", path, got, recorder.Code, want)
		}
	}
	stopping := configOf(t, but(func(d *Document) { d.Supervisor.Stopping = true }))
	request := received("POST", "/drain")
	request.RemoteAddr, request.Host = "127.0.0.1:40000", "127.0.0.1:15020"
	recorder := httptest.NewRecorder()
	Handler(stopping).ServeHTTP(recorder, request)
	if recorder.Code != http.StatusConflict {
		t.Errorf("drain of one that stops: %d, want 409", recorder.Code)
	}
}
