package ads

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/pilotlight/pilotlight/internal/binding"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// Own is what this process adds to the secure port.
type Own struct {
	Web     func(net.Conn) // takes connections of HTTP/1.1, after the handshake
	Foreign bool           // certificates count without the protocol of agents, except those of agents

	// Of an authority; nil without one.
	Certificate func() (*tls.Certificate, error) // of the server, where no file has one
	Roots       func() *x509.CertPool            // of clients' certificates, at each Reload; those of the files are trusted too
	Sign        func(context.Context, Application) (chain []string, err error)
	Prove       prover
}

// prover returns the SPIFFE ID that the token of a client without a certificate proves. Its errors are for the client.
type prover func(context.Context, Application) (id string, err error)

// Certificates are the files that the secure port needs, in PEM.
type Certificates struct {
	Cert string // the server's certificate and those between it and a root
	Key  string
	CA   string // roots of the clients' certificates
}

// maxCertificates is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxCertificates = 4 << 20

// TLS holds the certificate that the secure port presents and the roots that it accepts. Both may change while streams
// are open: open streams stay.
type TLS struct {
	files   Certificates
	own     *Own       // nil for none
	reading sync.Mutex // what is read last is used
	current atomic.Pointer[tls.Config]
	agents  agentCertificates
}

// NewTLS reads the files. own may be nil. With its authority there need not be any files; clients may come without a
// certificate then, for they come for one. Such a client gets a stream of ADS if its token proves an identity.
func NewTLS(files Certificates, own *Own) (*TLS, error) {
	t := &TLS{files: files, own: own}
	return t, t.Reload()
}

// Reload reads the files again. If it returns an error, the certificates read before stay in use.
func (t *TLS) Reload() error {
	t.reading.Lock()
	defer t.reading.Unlock()
	config := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"}, ClientCAs: x509.NewCertPool()}
	signs := t.own != nil && t.own.Roots != nil
	if t.own != nil {
		config.NextProtos = []string{"http/1.1", "h2"} // the server prefers the first: clients of gRPC offer the second only
	}
	if signs {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, t.own.Roots().Clone()
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.own.Certificate() }
	}
	if !signs || t.files != (Certificates{}) {
		pair, err := safefile.KeyPair(t.files.Cert, t.files.Key, maxCertificates)
		if err != nil {
			return fmt.Errorf("read certificate %s and key %s: %w", t.files.Cert, t.files.Key, err)
		}
		text, err := safefile.Read(t.files.CA, maxCertificates)
		if err != nil {
			return fmt.Errorf("read roots: %w", err)
		}
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("read roots %s: %w", t.files.CA, errors.New("no certificate in it, want PEM"))
		}
		config.Certificates, config.GetCertificate = []tls.Certificate{pair}, nil
	}
	t.current.Store(config)
	return nil
}

func (t *TLS) credentials() credentials.TransportCredentials {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: t.admitting,
	}
	if t.own == nil {
		return credentials.NewTLS(config)
	}
	return httpCredentials{credentials.NewTLS(config), config, t.own}
}

// admitting returns a configuration for a connection: it decides whether the certificate counts.
func (t *TLS) admitting(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if protocol := binding.Mesh(hello.SupportedProtos); protocol != "" {
		return nil, fmt.Errorf("%w: it offers the protocol %s, so a proxy of the mesh opened it for its client", errCaller, protocol)
	}
	agent, stream := binding.Agents(hello.SupportedProtos), slices.Contains(hello.SupportedProtos, binding.HTTP2)
	if conn, ok := hello.Conn.(*helloConn); ok {
		conn.agent = agent
	}
	config := t.current.Load().Clone()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil
		}
		if stream && !binding.Marked(state.PeerCertificates[0]) { // an operator may use the certificate of a command in a browser too
			t.agents.add(state.PeerCertificates[0], time.Now())
		}
		return t.agents.admit(state.PeerCertificates[0], agent, t.own == nil || t.own.Foreign)
	}
	return config, nil
}

// A route can lead strangers through a gateway's Envoy to this port, and that Envoy shows the gateway's certificate. So
// the port distinguishes agents' connections from those of Envoys and of other programs, see package binding.

// helloConn is the connection below one of TLS, with what its ClientHello shows.
type helloConn struct {
	net.Conn
	agent bool
}

// OfAgent reports whether an agent, or a command, opened a connection that Own.Web was given.
func OfAgent(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return false
	}
	below, ok := secure.NetConn().(*helloConn)
	return ok && below.agent
}

// errCaller is that of a connection that may not show its certificate here.
var errCaller = errors.New("not opened by an agent")

// maxKnown bounds the certificates that are remembered, 100 bytes each. Each is valid here, so they are of agents.
const maxKnown = 100_000

// agentCertificates are the certificates without the extension that agents have shown on a stream: those of files.
type agentCertificates struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

// admit returns an error unless the certificate counts on a connection. foreign admits those that no agent has
// requested or shown.
func (k *agentCertificates) admit(leaf *x509.Certificate, agent, foreign bool) error {
	switch {
	case agent:
		return nil
	case binding.Marked(leaf) || k.has(leaf):
		return fmt.Errorf("%w: it shows a certificate of an agent, %s, without the agent's protocol; an Envoy that connects by itself offers h2 and %s",
			errCaller, identityText(leaf), binding.HTTP2)
	case !foreign:
		return fmt.Errorf("%w: it shows the certificate of %s, and --foreignAgents is false", errCaller, identityText(leaf))
	default:
		return nil
	}
}

func (k *agentCertificates) has(leaf *x509.Certificate) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, found := k.until[sha256.Sum256(leaf.Raw)]
	return found
}

func (k *agentCertificates) add(leaf *x509.Certificate, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.until == nil {
		k.until = map[[sha256.Size]byte]time.Time{}
	}
	if len(k.until) >= maxKnown {
		for sum, until := range k.until {
			if now.After(until) {
				delete(k.until, sum)
			}
		}
	}
	if len(k.until) < maxKnown {
		k.until[sha256.Sum256(leaf.Raw)] = leaf.NotAfter
	}
}

func identityText(leaf *x509.Certificate) string {
	if id, err := identityOf(leaf); err == nil {
		return id.String()
	}
	return fmt.Sprintf("%q", leaf.Subject)
}

// httpCredentials are credentials of a port that has HTTP/1.1 beside gRPC: the protocol that TLS negotiates decides.
//
//	handshake ─┬─ h2 ─────────────▶ gRPC
//	           └─ http/1.1, none ─▶ web
type httpCredentials struct {
	credentials.TransportCredentials
	config *tls.Config
	own    *Own
}

// ServerHandshake is called with a deadline on the connection. gRPC takes the deadline back when it returns, which must
// not change the deadlines of a connection that web has.
func (s httpCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	inner := raw
	own, isOwn := raw.(*detachableConn)
	if isOwn {
		inner = own.Conn
	}
	conn := tls.Server(&helloConn{Conn: inner}, s.config)
	if err := conn.Handshake(); err != nil {
		_ = inner.Close()
		return nil, nil, err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == "h2" {
		return conn, credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
	}
	if isOwn {
		own.detached.Store(true)
	}
	if err := inner.SetDeadline(time.Time{}); err != nil {
		_ = inner.Close()
		return nil, nil, err
	}
	s.own.Web(conn)
	return nil, nil, credentials.ErrConnDispatched
}

func (s httpCredentials) Clone() credentials.TransportCredentials {
	return httpCredentials{s.TransportCredentials.Clone(), s.config.Clone(), s.own}
}

// detachableConn is an accepted connection whose deadlines are no longer those of gRPC once it has gone elsewhere.
type detachableConn struct {
	net.Conn
	Control  syscall.Conn // the same connection
	detached atomic.Bool
}

func (d *detachableConn) SetDeadline(t time.Time) error {
	if d.detached.Load() {
		return nil
	}
	return d.Conn.SetDeadline(t)
}

// SyscallConn shows whether the connection is closed: see acceptedConn.closed.
func (d *detachableConn) SyscallConn() (syscall.RawConn, error) { return d.Control.SyscallConn() }
