package status

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Files are judged for callers on this host, within a size, once there is a mesh.
func TestValidate(t *testing.T) {
	mesh := model.New(func(func(model.Group) bool) {})
	p := Pages{
		MaxSent: 4, Mesh: func() *model.Mesh { return mesh },
		Validate: func(_ context.Context, files []byte) (any, error) {
			if string(files) == "bad" {
				return nil, errors.New("read files: bad")
			}
			return map[string]string{"got": string(files)}, nil
		},
	}
	ask := func(p Pages, method, body, from, host string) (int, string) {
		r, w := httptest.NewRequest(method, "http://"+host+"/debug/validate", strings.NewReader(body)), httptest.NewRecorder()
		r.RemoteAddr = from
		p.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	early := p
	early.Mesh = func() *model.Mesh { return nil }
	for name, c := range map[string]struct {
		pages                    Pages
		method, body, from, host string
		code                     int
		said                     string
	}{
		"judged":             {p, "POST", "abcd", "127.0.0.1:1", "127.0.0.1", 200, `"got": "abcd"`},
		"too large":          {p, "POST", "abcde", "127.0.0.1:1", "127.0.0.1", 413, "more than 4 bytes"},
		"refused":            {p, "POST", "bad", "127.0.0.1:1", "127.0.0.1", 400, "read files: bad"},
		"read":               {p, "GET", "", "127.0.0.1:1", "127.0.0.1", 405, ""},
		"from another host":  {p, "POST", "abcd", "192.0.2.7:1", "192.0.2.1", 403, "for programs on this host only"},
		"by a rebound name":  {p, "POST", "abcd", "127.0.0.1:1", "rebound.test", 403, "for programs on this host only"},
		"before a mesh":      {early, "POST", "abcd", "127.0.0.1:1", "127.0.0.1", 503, "there is no mesh yet"},
		"from afar, refused": {p, "POST", "abcd", "", "", 403, `{"error":"refused"}`},
	} {
		code, said := 0, ""
		if c.from == "" {
			w := httptest.NewRecorder()
			p.Remote(func(*http.Request) error { return errors.New("no") }, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("POST", "/debug/validate", strings.NewReader(c.body)))
			code, said = w.Code, w.Body.String()
		} else {
			code, said = ask(c.pages, c.method, c.body, c.from, c.host)
		}
		if code != c.code || !strings.Contains(said, c.said) {
			t.Errorf("%s: %d %s, want %d %s", name, code, said, c.code, c.said)
		}
	}
}

// A caller that sends slowly loses its turn, and the next one has it.
func TestValidateOfASlowSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mesh := model.New(func(func(model.Group) bool) {})
		p := Pages{
			MaxSent: 100, Mesh: func() *model.Mesh { return mesh },
			Validate: func(context.Context, []byte) (any, error) { return "judged", nil },
		}
		l := make(pipes)
		server := &http.Server{Handler: p.Remote(func(*http.Request) error { return nil }, slog.New(slog.DiscardHandler))}
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		send := func(body string) chan string {
			conn, in := l.begin(t, "POST /debug/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n"+body)
			said := make(chan string, 1)
			go func() {
				defer conn.Close()
				text, _ := io.ReadAll(in)
				said <- string(text)
			}()
			return said
		}
		slow := send("1234")
		synctest.Wait()
		began := time.Now()
		if said := <-send("12345678"); !strings.Contains(said, "judged") || time.Since(began) != sendTime {
			t.Errorf("after %v: %s", time.Since(began), said)
		}
		if said := <-slow; !strings.Contains(said, "400") {
			t.Errorf("the slow one: %s", said)
		}
		l.end(t, server, ended)
	})
}

// A caller that does not read its answer holds up no other one.
func TestAnswersOfSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mesh := model.New(func(func(model.Group) bool) {})
		p := Pages{
			MaxSent: 100, Mesh: func() *model.Mesh { return mesh },
			Validate: func(context.Context, []byte) (any, error) { return strings.Repeat("judged ", 10_000), nil },
			Explain:  func(url.Values) (any, string, error) { return nil, strings.Repeat("explained ", 10_000), nil },
		}
		l := make(pipes)
		server := &http.Server{Handler: p.Remote(func(*http.Request) error { return nil }, slog.New(slog.DiscardHandler))}
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		for request, want := range map[string]string{
			"GET /debug/explain?output=text HTTP/1.1\r\nHost: x\r\n\r\n":             "explained ",
			"POST /debug/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1": "judged ",
		} {
			slow, _ := l.begin(t, request)
			synctest.Wait()
			began := time.Now()
			conn, in := l.begin(t, request)
			text, err := io.ReadAll(in)
			if got := strings.Count(string(text), want); got != 10_000 || time.Since(began) != 0 {
				t.Errorf("after %v %d of %q, %v", time.Since(began), got, want, err)
			}
			_ = errors.Join(conn.Close(), slow.Close())
		}
		l.end(t, server, ended)
	})
}
