package ads

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/pilotlight/pilotlight/discovery/ads/intake"
	"github.com/pilotlight/pilotlight/internal/connlimit"
)

// connections are those of all listeners, from their first byte on, before a handshake. gRPC does not report the end of
// one whose handshake fails. So closed connections are removed when the list has grown to twice its length, or is full.
//
// If it stays full, one connection is closed, as package connlimit says. A connection with a stream is served.
type connections struct {
	limit    int                      // 0 for any number
	streamed func() map[net.Conn]bool // returns the connections that have a stream
	shed     func(net.Conn)           // called for each connection before it is closed for want of room

	mu      sync.Mutex
	open    []acceptedConn // includes some that are closed; the oldest first
	cleared int            // how many were open when the closed ones were taken out
}

type acceptedConn struct {
	conn     net.Conn
	listener net.Listener
	from     netip.Prefix
	at       time.Time
}

// trackedListener is a listener whose connections are listed.
type trackedListener struct {
	net.Listener
	all    *connections
	shared bool // with HTTP/1.1
}

func (e *trackedListener) Accept() (net.Conn, error) {
	conn, err := e.Listener.Accept()
	if of, ok := conn.(syscall.Conn); ok && err == nil && e.shared {
		conn = &detachableConn{Conn: conn, Control: of}
	}
	if err == nil {
		e.all.add(acceptedConn{conn, e, connlimit.SourceOf(addressOf(conn)), time.Now()})
	}
	return conn, err
}

// add lists a connection. If there is no room, it closes one, perhaps this one.
func (c *connections) add(a acceptedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, a)
	full := c.limit > 0 && len(c.open) > c.limit
	if !full && len(c.open) <= 2*max(c.cleared, 32) {
		return
	}
	c.open = slices.DeleteFunc(c.open, func(old acceptedConn) bool { return old.closed(a.at) })
	c.cleared = len(c.open)
	if c.limit == 0 || len(c.open) <= c.limit {
		return
	}
	streamed := c.streamed()
	guests := make([]connlimit.Guest, len(c.open))
	for i, a := range c.open {
		guests[i] = connlimit.Guest{Source: a.from, Served: streamed[a.conn]}
	}
	i := connlimit.Victim(guests, connlimit.Lasts)
	c.shed(c.open[i].conn)
	_ = c.open[i].conn.Close()
	c.open = slices.Delete(c.open, i, i+1)
}

// closed reports whether a connection has ended. A connection without a file descriptor counts as ended after the time
// limit of the handshake.
func (a acceptedConn) closed(now time.Time) bool {
	if of, ok := a.conn.(syscall.Conn); ok {
		raw, err := of.SyscallConn()
		return err != nil || raw.Control(func(uintptr) {}) != nil
	}
	return now.Sub(a.at) > handshake
}

// closeAllBut closes a listener's other connections. A stop of gRPC waits for connections
// that may still be in the handshake, and offers no call to close them.
func (c *connections) closeAllBut(l net.Listener, used map[net.Conn]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.open {
		if a.listener == l && !used[a.conn] {
			_ = a.conn.Close() // it may be closed already
		}
	}
}

// trackedCredentials are credentials that remember the connection, so that one can be closed whose client reads
// nothing: ending the stream would leave the connection and its goroutines. They also count the requests of the
// connection.
type trackedCredentials struct {
	credentials.TransportCredentials
	intake  *intake.Budget
	refused func(peer string, err error) // the handshake
}

func (l trackedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := l.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		l.refused(raw.RemoteAddr().String(), err)
		return nil, nil, err
	}
	secure, isTLS := info.(credentials.TLSInfo)
	counted := l.intake.Wrap(conn, raw, addressOf(raw), isTLS && len(secure.State.VerifiedChains) > 0)
	return counted.Pool(), connInfo{info, raw, counted}, nil
}

func (l trackedCredentials) Clone() credentials.TransportCredentials {
	return trackedCredentials{l.TransportCredentials.Clone(), l.intake, l.refused}
}

// connInfo gives streams access to their connection.
type connInfo struct {
	credentials.AuthInfo // of the credentials, nil in plaintext
	conn                 net.Conn
	intake               *intake.Conn
}

func (l connInfo) AuthType() string {
	if l.AuthInfo == nil {
		return "plaintext"
	}
	return l.AuthInfo.AuthType()
}

func connInfoOf(ctx context.Context) connInfo {
	if p, ok := peer.FromContext(ctx); ok {
		if l, ok := p.AuthInfo.(connInfo); ok {
			return l
		}
	}
	return connInfo{}
}

// plaintext are credentials that do nothing.
type plaintext struct{}

func (plaintext) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return raw, nil, nil
}

func (plaintext) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return raw, nil, nil
}

func (plaintext) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "plaintext"}
}
func (plaintext) Clone() credentials.TransportCredentials { return plaintext{} }
func (plaintext) OverrideServerName(string) error         { return nil }

// addressOf returns the peer's IP address, the zero address if it has none.
func addressOf(conn net.Conn) netip.Addr {
	at, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return at.Addr().Unmap()
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
