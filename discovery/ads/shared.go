package ads

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
)

// shared are credentials of a port that has HTTP/1.1 beside gRPC: the protocol that TLS negotiates decides.
//
//	handshake ─┬─ h2 ─────────────▶ gRPC
//	           └─ http/1.1, none ─▶ web
type shared struct {
	credentials.TransportCredentials
	config *tls.Config
	own    *Own
}

// ServerHandshake is called with a deadline on the connection. gRPC takes the deadline back when it returns, which must not
// change the deadlines of a connection that web has.
func (s shared) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	inner := raw
	own, isOwn := raw.(*deadlined)
	if isOwn {
		inner = own.Conn
	}
	conn := tls.Server(&arrived{Conn: inner}, s.config)
	if err := conn.Handshake(); err != nil {
		_ = inner.Close()
		return nil, nil, err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == "h2" {
		return conn, credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
	}
	if isOwn {
		own.gone.Store(true)
	}
	if err := inner.SetDeadline(time.Time{}); err != nil {
		_ = inner.Close()
		return nil, nil, err
	}
	s.own.Web(conn)
	return nil, nil, credentials.ErrConnDispatched
}

func (s shared) Clone() credentials.TransportCredentials {
	return shared{s.TransportCredentials.Clone(), s.config.Clone(), s.own}
}

// deadlined is an accepted connection whose deadlines are no longer those of gRPC once it has gone elsewhere.
type deadlined struct {
	net.Conn
	Control syscall.Conn // the same connection
	gone    atomic.Bool
}

func (d *deadlined) SetDeadline(t time.Time) error {
	if d.gone.Load() {
		return nil
	}
	return d.Conn.SetDeadline(t)
}

// SyscallConn shows whether the connection is closed: see arrival.closed.
func (d *deadlined) SyscallConn() (syscall.RawConn, error) { return d.Control.SyscallConn() }
