package plane

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/internal/safefile"
	"github.com/pilotlight/pilotlight/watch"
)

// listeners are the listeners of the served addresses; secure, monitoring and webhooks are nil if they are not
// configured.
type listeners struct {
	grpc, web, secure, monitoring, webhooks net.Listener

	tls *ads.TLS
}

// listen opens all of them, or none, and returns every error. own is what the secure port has besides.
func listen(c Config, own *ads.Own) (l listeners, err error) {
	var faults []error
	open := func(wanted bool, flag, address string) net.Listener {
		if !wanted {
			return nil
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", flag, err))
			return nil
		}
		return l
	}
	at := c.Addresses
	l.grpc = open(true, "--grpcAddr", at.GRPC)
	l.web = open(true, "--httpAddr", at.HTTP)
	l.monitoring = open(at.Monitoring != "", "--monitoringAddr", at.Monitoring)
	l.secure = open(c.secure(), "--secureGRPCAddr", at.SecureGRPC)
	l.webhooks = open(c.Webhooks.Used(), "--webhookAddr", at.Webhooks)
	if c.secure() {
		if l.tls, err = ads.NewTLS(c.Certificates, own); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		l.close()
		return listeners{}, err
	}
	return l, nil
}

// close closes the open listeners. No connection has been accepted by then.
func (l listeners) close() {
	for _, l := range []net.Listener{l.grpc, l.web, l.monitoring, l.secure, l.webhooks} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// addressOf returns the address of a listener, "" for none.
func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// certified returns the addresses at which callers are admitted by certificates, as IP:PORT with commas: each address
// of the machine where the listener has all.
func (l listeners) certified() string {
	if l.secure == nil {
		return ""
	}
	at, err := netip.ParseAddrPort(l.secure.Addr().String())
	if err != nil || !at.Addr().IsUnspecified() {
		return l.secure.Addr().String()
	}
	var out []string
	all, _ := net.InterfaceAddrs() // without them the handshake still refuses such connections
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, netip.AddrPortFrom(p.Addr(), at.Port()).String())
		}
	}
	return strings.Join(out, ",")
}

// maxApplicants bounds the connections of HTTP at the secure port. Those of the whole port have a bound of their own.
const maxApplicants = 4096

// secureHTTP are what the secure port has beside gRPC, for those who speak HTTP/1.1 there: certificates, if there is an
// authority, and the pages.
type secureHTTP struct {
	conns     *handedConns
	authority *authority
}

// serve answers until ctx is done. at is the address of the secure port.
func (d secureHTTP) serve(ctx context.Context, at net.Addr, pages http.Handler, log *slog.Logger) error {
	return serveHTTP(ctx, handedListener{d.conns, at}, d.handler(pages), bounds{maxApplicants, idleTimeout}, log)
}

func (d secureHTTP) handler(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		switch {
		case path == "/" || path == "/debug" || path == "/v1/registration" || strings.HasPrefix(path, "/debug/") || strings.HasPrefix(path, "/page/"):
			pages.ServeHTTP(w, r)
		case d.authority != nil:
			d.authority.server.ServeHTTP(w, r)
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

// handedConns are connections that another listener has accepted.
type handedConns struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHandedConns() *handedConns {
	return &handedConns{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// give waits until the connection is taken, or closes it where nobody takes it any more.
func (h *handedConns) give(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.closed:
		_ = conn.Close() // the client comes again
	}
}

// handedListener is a listener of such connections.
type handedListener struct {
	*handedConns
	at net.Addr
}

func (l handedListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l handedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l handedListener) Addr() net.Addr { return l.at }

// onChange calls do when it starts, and when files may have changed, until ctx is done.
func onChange(ctx context.Context, log *slog.Logger, do func(), paths ...string) error {
	ticks := make(chan struct{}, 1)
	watcher := watch.Watcher{
		Paths: paths, Quiet: 100 * time.Millisecond, Ceiling: time.Second, Recheck: time.Minute, Log: log,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watcher.Run(ctx, ticks) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticks:
				do()
			}
		}
	})
	return g.Wait()
}

// reload reads the certificates when their files change. Files that cannot be read are logged, and the last good
// certificates stay.
func reload(ctx context.Context, secure *ads.TLS, files ads.Certificates, log *slog.Logger) error {
	var last [sha256.Size]byte
	return onChange(ctx, log, func() {
		now := contents(files.Cert, files.Key, files.CA)
		changed := now != last
		last = now
		if err := secure.Reload(); err != nil {
			log.Error("certificates not read, the last ones stay", "err", err)
		} else if changed { // they are also read every minute, without a change
			log.Info("certificates read", "tlsCertFile", files.Cert)
		}
	}, files.Cert, files.Key, files.CA)
}

// contents returns a hash of the contents of files. A file that cannot be read counts as empty.
func contents(paths ...string) [sha256.Size]byte {
	hash := sha256.New()
	for _, path := range paths {
		data, _ := safefile.Read(path, 4<<20)
		fmt.Fprintf(hash, "%d %s", len(data), data)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
