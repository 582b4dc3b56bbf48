package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeAdmin answers on a Unix socket instead of Envoy.
func fakeAdmin(t testing.TB, answer http.HandlerFunc) *Admin {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "admin.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-done })
	return NewAdmin(socket)
}

func TestReady(t *testing.T) {
	status := http.StatusOK
	admin := fakeAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, "PRE_INITIALIZING\n")
	})
	if err := admin.Ready(t.Context()); err != nil {
		t.Errorf("Ready on 200: %v", err)
	}
	status = http.StatusServiceUnavailable
	if err := admin.Ready(t.Context()); !errors.Is(err, errNotReady) || !strings.Contains(err.Error(), "PRE_INITIALIZING") {
		t.Errorf("Ready on 503: got %v, want errNotReady with Envoy's state", err)
	}
	if err := NewAdmin(admin.Socket + ".none").Ready(t.Context()); err == nil || errors.Is(err, errNotReady) {
		t.Errorf("Ready without a socket: got %v, want an error that is not errNotReady", err)
	}
}

// Envoy is reached where its socket's file was removed, replaced or moved away with its directory.
func TestAnAdminWithoutItsPath(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
		"moved":    func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+"-aside") },
	} {
		admin := fakeAdmin(t, func(http.ResponseWriter, *http.Request) {})
		if err := admin.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := harm(admin.Socket); err != nil {
			t.Fatal(err)
		}
		if err := admin.Ready(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnAnswerIsBounded asks without adminTimeout: the longest answers take seconds of a busy machine.
func TestAnAnswerIsBounded(t *testing.T) {
	for _, test := range []struct {
		name, answer, want string
	}{
		{"an endless header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("x: y\r\n", longestHeader), "header is longer than"},
		{"a header line without end", "HTTP/1.1 200 OK\r\nx: " + strings.Repeat("x", 2*longestHeader), "header is longer than"},
		{"endless chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + strings.Repeat("1c2;"+strings.Repeat("x", 900)+"\r\n"+strings.Repeat("x", 450)+"\r\n", longestBody/450), "longer than"},
		{"an endless body", "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + strings.Repeat("x", longestBody+1), "longer than"},
		{"a body cut short", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", "unexpected EOF"},
		{"no HTTP", "hello\r\n\r\n", "malformed HTTP"},
		{"nothing", "", "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			go func() {
				defer theirs.Close()
				theirs.Read(make([]byte, 1000))
				io.WriteString(theirs, test.answer)
			}()
			if _, _, err := exchange(ours, "GET", "/x"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestAnotherStatusIsAnError(t *testing.T) {
	admin := fakeAdmin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "nope")
	})
	if _, err := admin.get(t.Context(), "/x"); err == nil || !strings.Contains(err.Error(), "GET /x: status 404: nope") {
		t.Errorf("got %v, want an error with the status and the answer", err)
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	frozen := make(chan struct{})
	admin := fakeAdmin(t, func(http.ResponseWriter, *http.Request) { <-frozen })
	defer close(frozen)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := admin.Ready(ctx); err == nil || time.Since(began) > adminTimeout/2 {
		t.Errorf("Ready of a frozen admin: %v after %s, want an error at the deadline", err, time.Since(began))
	}
}

func TestExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		request := make(chan string, 1)
		go func() {
			defer theirs.Close()
			buffer := make([]byte, 1000)
			n, _ := theirs.Read(buffer)
			request <- string(buffer[:n])
			io.WriteString(theirs, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n")
		}()
		status, body, err := exchange(ours, "POST", "/x?y")
		if status != 200 || string(body) != "abcd" || err != nil {
			t.Errorf("exchange: %d %q %v, want 200 abcd", status, body, err)
		}
		if got, want := <-request, "POST /x?y HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"; got != want {
			t.Errorf("request %q, want %q", got, want)
		}
	})
}

func TestDrainListeners(t *testing.T) {
	var asked string
	admin := fakeAdmin(t, func(_ http.ResponseWriter, r *http.Request) { asked = r.Method + " " + r.URL.RequestURI() })
	for drain, want := range map[Drain]string{
		{}: "POST /drain_listeners",
		{InboundOnly: true, Graceful: true, SkipExit: true}: "POST /drain_listeners?inboundonly&graceful&skip_exit",
		{Graceful: true}: "POST /drain_listeners?graceful",
	} {
		if err := admin.DrainListeners(t.Context(), drain); err != nil || asked != want {
			t.Errorf("%+v: asked %q, %v; want %q", drain, asked, err, want)
		}
	}
}

// BenchmarkProbe measures one request of each kind that is sent every second. The server is the same for all.
func BenchmarkProbe(b *testing.B) {
	admin := fakeAdmin(b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "LIVE") })
	b.Run("ask", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := admin.Ready(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("net_http", func(b *testing.B) {
		client := &http.Client{Transport: admin.Transport(), Timeout: adminTimeout}
		b.ReportAllocs()
		for b.Loop() {
			response, err := client.Get("http://envoy/ready")
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})
}
