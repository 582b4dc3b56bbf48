package plane

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/ads"
)

// maxApplicants bounds the connections of HTTP at the secure port. Those of the whole port have a bound of their own.
const maxApplicants = 4096

// doors are what the secure port has beside gRPC, for those who speak HTTP/1.1 there: certificates, if there is an authority, and the pages.
type doors struct {
	conns  *handed
	office *office
}

// serve answers until ctx is done. at is the address of the secure port.
func (d doors) serve(ctx context.Context, at net.Addr, pages http.Handler, log *slog.Logger) error {
	return serveHTTP(ctx, listening{d.conns, at}, d.handler(pages), bounds{maxApplicants, idleTimeout}, log)
}

func (d doors) handler(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		switch {
		case path == "/" || path == "/debug" || path == "/v1/registration" || strings.HasPrefix(path, "/debug/") || strings.HasPrefix(path, "/page/"):
			pages.ServeHTTP(w, r)
		case d.office != nil:
			d.office.desk.ServeHTTP(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"this port has gRPC, and pages below /debug/ for the root namespace"}`+"\n") // a caller that left needs no answer
		}
	})
}

// maySee returns why a caller at the secure port may not see the pages.
func (p *Plane) maySee(r *http.Request) error {
	if r.TLS == nil {
		return errors.New("want TLS")
	}
	return ads.MaySeeAll(p.proxies.Mesh(), *r.TLS)
}

// handed are connections that another listener has accepted.
type handed struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHanded() *handed { return &handed{conns: make(chan net.Conn), closed: make(chan struct{})} }

// give waits until the connection is taken, or closes it where nobody takes it any more.
func (h *handed) give(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.closed:
		_ = conn.Close() // the client comes again
	}
}

// listening is a listener of such connections.
type listening struct {
	*handed
	at net.Addr
}

func (l listening) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l listening) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l listening) Addr() net.Addr { return l.at }
