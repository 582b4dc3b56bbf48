package status

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
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

// A busy port is an error if it was set, and a warning if it is the default: everything else is served.
func TestServeBusyPort(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, given := range []bool{false, true} {
		var log bytes.Buffer
		path := filepath.Join(t.TempDir(), "socket")
		config := Config{Envoys: ports{}, Envoy: func() http.RoundTripper { return nil }, Log: slog.New(slog.NewTextHandler(&log, nil))}
		own := Ports{Admin: OwnPort{Name: "--proxyAdminPort", Number: busy.Addr().(*net.TCPAddr).Port, Given: given}}
		stop, err := Serve(config, own, path)
		if given {
			if err == nil || !strings.HasPrefix(err.Error(), "--proxyAdminPort: ") || !strings.HasSuffix(err.Error(), "name a free port, or 0 for none") {
				t.Errorf("a port that was asked for: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "port not opened") || !strings.Contains(log.String(), "flag=--proxyAdminPort") {
			t.Errorf("a default port: log %q", log.String())
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Errorf("the owner's socket: %v", err)
		} else {
			conn.Close()
		}
		stop()
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			t.Error("the owner's socket is open after stop")
		}
	}
}

// slow is a listener with a pause between a connection's arrival and its acceptance.
type slow struct {
	net.Listener
	came, goOn chan struct{}
}

func (s *slow) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err == nil {
		close(s.came)
		<-s.goOn
	}
	return conn, err
}

// A connection that the kernel has handed out when the ports are left to another image is answered by this one.
func TestLastConnectionIsAnswered(t *testing.T) {
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	inherited := &slow{own, make(chan struct{}), make(chan struct{})}
	document := func() Document { return Document{} }
	config := Config{Document: document, Envoys: ports{}, Envoy: func() http.RoundTripper { return nil }, Log: slog.New(slog.DiscardHandler)}
	stop, err := Serve(config, Ports{
		Status:    OwnPort{Name: "--statusPort", Number: own.Addr().(*net.TCPAddr).Port},
		Inherited: map[string]net.Listener{"--statusPort": inherited},
		Keep:      func(at string, _ net.Listener) bool { return at == "--statusPort" },
	}, filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		response, err := http.Get("http://" + own.Addr().String() + "/status")
		if err == nil {
			response.Body.Close()
		}
		answered <- err
	}()
	<-inherited.came
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	// Until the listener is closed, which is before anything else of stop: one more connection would be accepted too.
	if err := lab.Eventually(30*time.Second, func() error {
		conn, err := net.Dial("tcp", own.Addr().String())
		if err != nil {
			return nil
		}
		conn.Close()
		return errors.New("the port is open")
	}); err != nil {
		t.Error(err)
	}
	close(inherited.goOn)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-stopped
}

// A port that was set otherwise since another image has opened it is opened anew, and the old one closed; while it is busy the old one stays.
func TestServeOtherPorts(t *testing.T) {
	listen := func() (net.Listener, int) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l, l.Addr().(*net.TCPAddr).Port
	}
	free := func() int {
		t.Helper()
		l, port := listen()
		l.Close()
		return port
	}
	_, busy := listen()
	for _, test := range []struct {
		name          string
		port          int // that is set now
		before, after bool
		unchanged     string
	}{
		{"another", free(), false, true, ""},
		{"one that is busy", busy, true, false, "--proxyAdminPort"},
		{"none", 0, false, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			inherited, old := listen()
			var unchanged []string
			config := Config{
				Document: func() Document { return Document{} }, Envoys: ports{}, Envoy: func() http.RoundTripper { return nil },
				Log: slog.New(slog.DiscardHandler),
			}
			stop, err := Serve(config, Ports{
				Admin:     OwnPort{Name: "--proxyAdminPort", Number: test.port},
				Inherited: map[string]net.Listener{"--proxyAdminPort": inherited},
				Unchanged: func(why string) { unchanged = append(unchanged, why) },
			}, filepath.Join(t.TempDir(), "socket"))
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			serves := func(port int) bool {
				response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
				if err == nil {
					response.Body.Close()
				}
				return err == nil
			}
			if got := serves(old); got != test.before {
				t.Errorf("the old port is served: %t", got)
			}
			if test.after && !serves(test.port) {
				t.Error("the new port is not served")
			}
			if got := strings.Join(unchanged, "; "); (got == "") != (test.unchanged == "") || !strings.HasPrefix(got, test.unchanged) {
				t.Errorf("got %q, want %q", got, test.unchanged)
			}
		})
	}
}
