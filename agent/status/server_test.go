package status

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// started serves a handler on a port of its own, and returns the port.
func started(t *testing.T, h http.Handler) (port int, onlyIPv4 bool) {
	t.Helper()
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	listener, onlyIPv4, err := Listen(port, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(h, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-done })
	return port, onlyIPv4
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

// The port is open for both families if the kernel has both; else for IPv4 alone, and Listen reports that.
func TestListen(t *testing.T) {
	t.Run("dual stack", func(t *testing.T) {
		lab.InNetworkNamespace(t, func(t *testing.T) {
			port, onlyIPv4 := started(t, hello)
			for _, host := range []string{"127.0.0.1", "::1"} {
				if body, err := lab.Get("http://" + net.JoinHostPort(host, fmt.Sprint(port))); err != nil || body != "hello" {
					t.Errorf("%s: %q, %v", host, body, err)
				}
			}
			if onlyIPv4 {
				t.Error("said to be on IPv4 only")
			}
		})
	})
	t.Run("no IPv6", func(t *testing.T) {
		lab.InNetworkNamespace(t, func(t *testing.T) {
			lab.WriteSysctl(t, "net/ipv6/conf/all/disable_ipv6", "1")
			port, onlyIPv4 := started(t, hello)
			if body, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d", port)); err != nil || body != "hello" {
				t.Errorf("%q, %v", body, err)
			}
			if !onlyIPv4 {
				t.Error("not said to be on IPv4 only")
			}
		})
	})
}

// A connection serves one request; a head that is too long is refused; connections without a request are closed for new
// ones.
func TestServerIsBounded(t *testing.T) {
	port, _ := started(t, hello)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	say := func(text string) *http.Response {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(conn, text)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	if r := say("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 200 || !r.Close {
		t.Errorf("got %d, close %v; want 200, and the connection closed", r.StatusCode, r.Close)
	}
	if r := say("GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2*longestHead) + "\r\n\r\n"); r.StatusCode != 431 {
		t.Errorf("a long head: got %d, want 431", r.StatusCode)
	}
	for range 2 * strangerRoom { // that say nothing
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if _, err := lab.Get("http://" + address); err != nil {
		t.Errorf("beside those that say nothing: %v", err)
	}
}
