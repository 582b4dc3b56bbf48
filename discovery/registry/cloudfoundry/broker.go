package cloudfoundry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pilotlight/pilotlight/internal/safefile"
)

// Broker holds the settings of the connection to NATS.
type Broker struct {
	URLs        []string // nats://host:port or tls://host:port, without credentials; the first that answers is used
	Credentials string   // file of USER:PASSWORD, or of a user's JWT and seed; read at each connection; "" for none
	CA          string   // PEM file of roots; "" for the system's
	Cert, Key   string   // PEM files of a client's certificate; "" for none

	patience time.Duration // instead of dialTimeout, for a test to set
}

// A connection whose broker does not answer is closed: after dialTimeout while it is made, later after two pings, and
// after flushTimeout when the source is about to prune.
const (
	dialTimeout  = 5 * time.Second
	flushTimeout = 2 * time.Second
	pingInterval = 10 * time.Second
	lostPings    = 2
)

// connection is one connection to a broker. It does not reconnect.
type connection struct {
	*nats.Conn
	ended chan struct{}
	fault chan error // an error of the broker about a subscription, or that messages were dropped
}

// connect dials until ctx is done: nats.go itself takes no context.
func (b Broker) connect(ctx context.Context) (*connection, error) {
	limit := cmp.Or(b.patience, dialTimeout)
	c := &connection{ended: make(chan struct{}), fault: make(chan error, 1)}
	var dial dialFault
	options := []nats.Option{
		nats.Name("pilotlight discovery"), nats.NoReconnect(), nats.Timeout(limit), nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(lostPings), nats.SetCustomDialer(dialUntil(ctx, limit, &dial)),
		nats.ClosedHandler(func(*nats.Conn) { close(c.ended) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case c.fault <- err:
			default:
			}
		}),
	}
	if b.CA != "" || b.Cert != "" {
		settings, err := b.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(settings))
	}
	if b.Credentials != "" {
		option, err := credentials(b.Credentials)
		if err != nil {
			return nil, err
		}
		options = append(options, option)
	}
	var err error
	if c.Conn, err = nats.Connect(strings.Join(b.URLs, ","), options...); err != nil {
		if last := dial.last(); last != nil && errors.Is(err, nats.ErrNoServers) {
			err = last // nats.go does not return it
		}
		return nil, fmt.Errorf("connect to NATS at %s: %w", strings.Join(b.URLs, ", "), err)
	}
	return c, nil
}

// dialer is a function with which nats.go dials.
type dialer func(network, address string) (net.Conn, error)

// Dial calls it.
func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// dialUntil returns a dialer whose connections are closed when ctx is done.
func dialUntil(ctx context.Context, limit time.Duration, fault *dialFault) dialer {
	return func(network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: limit}).DialContext(ctx, network, address)
		fault.set(err)
		if err != nil {
			return nil, err
		}
		return &closer{Conn: conn, forget: context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
	}
}

// dialFault holds the error of the last dial; nil if it succeeded.
type dialFault struct {
	mu  sync.Mutex
	err error
}

func (f *dialFault) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *dialFault) last() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// mostLine is how many bytes a broker may send without the end of a line: nats.go buffers a line of any length. No
// announcement is as long.
const mostLine = 8 << 20

var errLongLine = fmt.Errorf("the broker sends a line of more than %d MiB", mostLine>>20)

// closer is a connection that releases its context when it is closed, and fails if a line is longer than mostLine.
type closer struct {
	net.Conn
	forget func() bool
	line   int // bytes since the last newline; encrypted data contains that byte by chance
}

func (c *closer) Read(p []byte) (int, error) {
	if c.line > mostLine {
		return 0, errLongLine
	}
	n, err := c.Conn.Read(p)
	if at := bytes.LastIndexByte(p[:n], '\n'); at >= 0 {
		c.line = n - at - 1
	} else {
		c.line += n
	}
	return n, err
}

func (c *closer) Close() error {
	c.forget()
	return c.Conn.Close()
}

// maxFile is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxFile = 4 << 20

// tls reads the files of certificates.
func (b Broker) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if b.CA != "" {
		pem, err := safefile.Read(b.CA, maxFile)
		if err != nil {
			return nil, fmt.Errorf("read the roots of NATS' certificate: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the roots of NATS' certificate: %s holds no PEM certificate", b.CA)
		}
	}
	if b.Cert != "" {
		pair, err := safefile.KeyPair(b.Cert, b.Key, maxFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for NATS: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// credentials reads the file of credentials.
func credentials(path string) (nats.Option, error) {
	data, err := safefile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read credentials of NATS: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if strings.Contains(text, "-----BEGIN NATS USER JWT-----") {
		return nats.UserCredentialBytes(data), nil
	}
	user, password, ok := strings.Cut(text, ":")
	if !ok || user == "" || strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("read credentials of NATS: " + path + ": want one line USER:PASSWORD, or a user's JWT with its seed")
	}
	return nats.UserInfo(user, password), nil
}

// reason returns why a connection has ended.
func (c *connection) reason() error {
	select {
	case err := <-c.fault:
		return err
	default:
	}
	if err := c.LastError(); err != nil {
		return err
	}
	return errors.New("the broker closed the connection")
}

// answer waits until the broker has processed everything that was sent to it.
func (c *connection) answer(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.FlushWithContext(ctx)
}

// end closes the connection, and returns when none of its goroutines runs any more.
func (c *connection) end() {
	c.Close()
	<-c.ended
}
