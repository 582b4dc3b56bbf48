package ads

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/pilotlight/pilotlight/discovery/ads/intake"
)

// linked are credentials that remember the connection, so that one can be closed whose client reads nothing: ending the
// stream would leave the connection and its goroutines. They also count the requests of the connection.
type linked struct {
	credentials.TransportCredentials
	intake  *intake.Budget
	refused func(peer string, err error) // the handshake
}

func (l linked) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := l.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		l.refused(raw.RemoteAddr().String(), err)
		return nil, nil, err
	}
	secure, isTLS := info.(credentials.TLSInfo)
	counted := l.intake.Wrap(conn, raw, addressOf(raw), isTLS && len(secure.State.VerifiedChains) > 0)
	return counted.Pool(), link{info, raw, counted}, nil
}

func (l linked) Clone() credentials.TransportCredentials {
	return linked{l.TransportCredentials.Clone(), l.intake, l.refused}
}

// link gives streams access to their connection.
type link struct {
	credentials.AuthInfo // of the credentials, nil in plaintext
	conn                 net.Conn
	intake               *intake.Conn
}

func (l link) AuthType() string {
	if l.AuthInfo == nil {
		return "plaintext"
	}
	return l.AuthInfo.AuthType()
}

func linkOf(ctx context.Context) link {
	if p, ok := peer.FromContext(ctx); ok {
		if l, ok := p.AuthInfo.(link); ok {
			return l
		}
	}
	return link{}
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
