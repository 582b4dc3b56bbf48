package status

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) ask(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	return p.begin(t, "GET /debug/config HTTP/1.1\r\nHost: x\r\n\r\n")
}

func (p pipes) begin(t *testing.T, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	here, there := net.Pipe()
	p <- there
	if _, err := io.WriteString(here, request); err != nil {
		t.Fatal(err)
	}
	return here, bufio.NewReader(here)
}

func (p pipes) end(t *testing.T, server *http.Server, ended <-chan error) {
	t.Helper()
	close(p)
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

// Callers who do not read hold an answer each for a while, some at a time, and no longer.
func TestSlowReadersAfar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pages{Config: func() any { return strings.Repeat("x", 1<<20) }}
		l := make(pipes)
		server := &http.Server{Handler: p.Afar(func(*http.Request) error { return nil }, slog.New(slog.DiscardHandler))}
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		status := func() string {
			conn, in := l.ask(t)
			defer conn.Close()
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return line
		}
		for range answersAfar {
			conn, _ := l.ask(t)
			defer conn.Close()
		}
		synctest.Wait()
		if got := status(); !strings.Contains(got, "503") {
			t.Errorf("one more: %s", got)
		}
		<-time.After(answerTime + time.Second)
		synctest.Wait()
		if got := status(); !strings.Contains(got, "200") {
			t.Errorf("after their time: %s", got)
		}
		l.end(t, server, ended)
	})
}

// Refusals are in the log with their cause, at most one in a second.
func TestRefusalsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := Pages{}.Afar(func(*http.Request) error { return errors.New("of namespace shop") }, slog.New(slog.NewTextHandler(&log, nil)))
		ask := func() {
			r, w := request("/debug/" + strings.Repeat("x", 200))
			h.ServeHTTP(w, r)
			if w.Code != 403 || w.Body.String() != `{"error":"refused"}`+"\n" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		for range 5 {
			ask()
		}
		<-time.After(logRefusals)
		ask()
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "namespace shop") || !strings.Contains(got, "more=4") || len(got) > 700 {
			t.Errorf("the log:\n%s", got)
		}
	})
}

func request(path string) (*http.Request, *httptest.ResponseRecorder) {
	return httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
}
