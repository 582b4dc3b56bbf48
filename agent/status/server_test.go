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
	listener, onlyIPv4, err := Listen(port)
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

// Both families at one port, where the kernel has both; IPv4 alone, and told, where it has not.
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

// A connection serves one request; a head that is too long is refused; those that are too many wait, and are served.
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
	var idle []net.Conn
	for range 2 * connections { // that say nothing
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle = append(idle, conn)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := lab.Get("http://" + address)
		answered <- err
	}()
	for _, conn := range idle {
		conn.Close()
	}
	if err := <-answered; err != nil {
		t.Errorf("after those that said nothing: %v", err)
	}
}

// slots is a listener of which a test sees how many it lets in.
func TestBoundedListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bounded{Listener: inner, slots: make(chan struct{}, 2)}
	accepted := make(chan net.Conn, 10)
	go func() {
		defer close(accepted)
		for {
			conn, err := b.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	for range 3 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Error("a third is let in beside two")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // twice gives up one place
	third := <-accepted
	if len(b.slots) != 2 {
		t.Errorf("%d places are taken, want 2", len(b.slots))
	}
	second.Close()
	third.Close()
	b.Close()
	for range accepted {
	}
}
