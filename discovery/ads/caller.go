package ads

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/internal/binding"
)

// A route can lead strangers through a gateway's Envoy to this port, and that Envoy shows the gateway's certificate. So the port
// distinguishes agents' connections from those of Envoys and of other programs, see package binding.

// arrived is the connection below one of TLS, with what its ClientHello shows.
type arrived struct {
	net.Conn
	agent bool
}

// OfAgent reports whether an agent, or a command, opened a connection that Own.Web was given.
func OfAgent(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return false
	}
	below, ok := secure.NetConn().(*arrived)
	return ok && below.agent
}

// errCaller is that of a connection that may not show its certificate here.
var errCaller = errors.New("not opened by an agent")

// maxKnown bounds the certificates that are remembered, 100 bytes each. Each is valid here, so they are of agents.
const maxKnown = 100_000

// known are the certificates without the extension that agents have shown on a stream: those of files.
type known struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

// admit returns an error unless the certificate counts on a connection. foreign admits those that no agent has requested or shown.
func (k *known) admit(leaf *x509.Certificate, agent, foreign bool) error {
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

func (k *known) has(leaf *x509.Certificate) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, found := k.until[sha256.Sum256(leaf.Raw)]
	return found
}

func (k *known) add(leaf *x509.Certificate, now time.Time) {
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
