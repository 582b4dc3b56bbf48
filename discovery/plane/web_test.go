package plane

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// away is a connection from an address.
type away struct {
	net.Conn
	from string
	shut bool
}

func (a *away) RemoteAddr() net.Addr { at, _ := net.ResolveTCPAddr("tcp", a.from); return at }
func (a *away) Close() error         { a.shut = true; return nil }

// For a connection that finds no room, one is closed of the address that has most: an API server keeps its own, whatever another
// program does.
func TestRoomIsMadeByTheGreediest(t *testing.T) {
	const active, idle = http.StateActive, http.StateIdle
	type step struct {
		from  string // port 1 is the first connection of an address
		state http.ConnState
	}
	for name, tt := range map[string]struct {
		steps []step
		shut  string // which of them
	}{
		"waits longest":        {[]step{{"10.0.0.1:1", idle}, {"10.0.0.1:2", idle}, {"10.0.0.1:3", idle}, {"10.0.0.1:4", http.StateNew}}, "10.0.0.1:1"},
		"without a request":    {[]step{{"10.0.0.1:1", active}, {"10.0.0.1:2", active}, {"10.0.0.1:3", idle}, {"10.0.0.1:4", http.StateNew}}, "10.0.0.1:3"},
		"all have a request":   {[]step{{"10.0.0.1:1", active}, {"10.0.0.1:2", active}, {"10.0.0.1:3", active}, {"10.0.0.1:4", http.StateNew}}, "10.0.0.1:1"},
		"an API server waits":  {[]step{{"10.0.0.1:1", idle}, {"10.0.0.9:1", active}, {"10.0.0.9:2", active}, {"10.0.0.9:3", http.StateNew}}, "10.0.0.9:1"},
		"an API server begins": {[]step{{"10.0.0.9:1", active}, {"10.0.0.9:2", active}, {"10.0.0.9:3", active}, {"10.0.0.1:1", http.StateNew}}, "10.0.0.9:1"},
		"many addresses":       {[]step{{"10.0.0.1:1", active}, {"10.0.0.2:1", active}, {"10.0.0.3:1", idle}, {"10.0.0.4:1", http.StateNew}}, "10.0.0.3:1"},
		"mapped addresses":     {[]step{{"10.0.0.1:1", idle}, {"[::ffff:10.0.0.9]:1", active}, {"10.0.0.9:2", active}, {"10.0.0.3:1", http.StateNew}}, "[::ffff:10.0.0.9]:1"},
	} {
		c := &connections{most: 3, activity: map[net.Conn]activity{}}
		var all []*away
		for _, s := range tt.steps {
			conn := &away{from: s.from}
			all = append(all, conn)
			c.track(conn, s.state)
		}
		for _, conn := range all {
			if conn.shut != (conn.from == tt.shut) {
				t.Errorf("%s: the connection of %s is closed: %v, want that of %s", name, conn.from, conn.shut, tt.shut)
			}
		}
	}
}

// Closing a connection for want of room does not wait for its client, which may read nothing: meanwhile no other is accepted.
func TestRoomIsMadeAtOnce(t *testing.T) {
	made := httptest.NewTLSServer(nil)
	certificates := made.TLS.Certificates
	made.Close()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		conn := tls.Server(there, &tls.Config{Certificates: certificates})
		go func() {
			_ = tls.Client(here, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake()
		}() //nolint:gosec // it is this test's
		if err := conn.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := &connections{most: 1, activity: map[net.Conn]activity{}}
		c.track(conn, http.StateIdle)
		began := time.Now()
		c.track(&away{from: "10.0.0.1:1"}, http.StateNew)
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s", took)
		}
	})
}

// An API server uses a connection again for 90 seconds. One that this end closes before could be met by a request, which it does not
// repeat.
func TestAPIServersCloseTheirConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		stop := serveConnections(t, there)
		in := bufio.NewReader(here)
		for range 3 {
			if _, err := io.WriteString(here, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			<-time.After(95 * time.Second)
		}
		here.Close()
		stop()
	})
}

// A connection to the webhooks that stays silent, or stops in its handshake or its header, is closed after ten seconds.
func TestSilentCallersOfWebhooks(t *testing.T) {
	made := httptest.NewTLSServer(nil)
	certificates := made.TLS.Certificates
	made.Close()
	synctest.Test(t, func(t *testing.T) {
		const most = headTimeout + time.Second
		for name, begin := range map[string]func(net.Conn) net.Conn{
			"nothing":         func(c net.Conn) net.Conn { return c },
			"half a greeting": func(c net.Conn) net.Conn { _, _ = c.Write([]byte{22, 3, 1, 0, 200, 1}); return c },
			"half a header": func(c net.Conn) net.Conn {
				encrypted := tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is this test's
				_, _ = io.WriteString(encrypted, "POST /inject HTTP/1.1\r\nHost:")
				return encrypted
			},
		} {
			here, there := net.Pipe()
			stop := serveConnections(t, tls.Server(there, &tls.Config{Certificates: certificates}))
			conn := begin(here)
			began := time.Now()
			_, _ = io.Copy(io.Discard, conn)
			if took := time.Since(began); took > most {
				t.Errorf("%s: it is closed after %s", name, took)
			}
			here.Close()
			stop()
		}
	})
}

// serveConnections serves connections as those of the webhooks, until the returned function is called.
func serveConnections(t *testing.T, all ...net.Conn) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- serveHTTP(ctx, &arrivals{all, make(chan struct{})}, http.NotFoundHandler(), reviewBounds(), slog.New(slog.DiscardHandler))
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// arrivals is a listener that accepts these connections.
type arrivals struct {
	all    []net.Conn
	closed chan struct{}
}

func (g *arrivals) Accept() (net.Conn, error) {
	if len(g.all) == 0 {
		<-g.closed
		return nil, net.ErrClosed
	}
	conn := g.all[0]
	g.all = g.all[1:]
	return conn, nil
}
func (g *arrivals) Close() error   { close(g.closed); return nil }
func (g *arrivals) Addr() net.Addr { return &net.TCPAddr{} }
