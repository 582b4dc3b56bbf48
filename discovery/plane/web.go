package plane

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ca/server"
	"github.com/pilotlight/pilotlight/internal/connlimit"
)

// Bounds of the HTTP ports. They have few clients, and ADS needs the descriptors.
const (
	maxConnections = 64               // of a port; for one more, another one is closed: see connections
	headTimeout    = 10 * time.Second // of a request, with the handshake of TLS before it
	idleTimeout    = 30 * time.Second // between requests
	grace          = time.Second      // for requests that are in flight at the stop
)

// bounds are those of one port.
type bounds struct {
	connections int
	idle        time.Duration // between requests
}

// pageBounds returns the bounds of a port for probes, metrics and people.
func pageBounds() bounds { return bounds{maxConnections, idleTimeout} }

// serveHTTP serves until ctx is done, within these bounds; then requests in flight may end within grace.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler, b bounds, log *slog.Logger) error {
	open := &connections{most: b.connections, activity: map[net.Conn]activity{}}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headTimeout, IdleTimeout: b.idle, ConnState: open.track,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if ads.OfAgent(conn) {
				return server.OfAgent(ctx)
			}
			return ctx
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP at %s: %w", l.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		late, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if server.Shutdown(late) != nil {
			_ = server.Close() // requests that take longer are cut off
		}
		return nil
	})
	return g.Wait()
}

// connections are the connections of one port. If there is no room for a new one, another one is closed, as package
// room says. A connection with a request in flight is served; its age is that of its state.
type connections struct {
	most     int
	mu       sync.Mutex
	activity map[net.Conn]activity
	last     int
}

// activity is the state of a connection, and since when, as an increasing number.
type activity struct {
	from  netip.Prefix
	busy  bool // a request is in flight
	since int
}

func (c *connections) track(conn net.Conn, state http.ConnState) {
	if victim := c.note(conn, state); victim != nil {
		if encrypted, ok := victim.(*tls.Conn); ok {
			victim = encrypted.NetConn() // its own Close waits for a client that does not read
		}
		_ = victim.Close() // the server notices
	}
}

// note records the state of a connection. It returns the connection to close; nil for none.
func (c *connections) note(conn net.Conn, state http.ConnState) (victim net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	switch state {
	case http.StateNew, http.StateIdle, http.StateActive:
		c.activity[conn] = activity{from: connlimit.SourceOf(addressFrom(conn)), busy: state == http.StateActive, since: c.last}
	default:
		delete(c.activity, conn)
	}
	if len(c.activity) <= c.most {
		return nil
	}
	victim = c.victim(conn)
	delete(c.activity, victim)
	return victim
}

// victim returns the connection to close for a new one.
func (c *connections) victim(newest net.Conn) net.Conn {
	open := slices.SortedFunc(maps.Keys(c.activity), func(a, b net.Conn) int {
		return cmp.Or(order(a == newest, b == newest), cmp.Compare(c.activity[a].since, c.activity[b].since))
	})
	guests := make([]connlimit.Guest, len(open))
	for i, conn := range open {
		guests[i] = connlimit.Guest{Source: c.activity[conn].from, Served: c.activity[conn].busy}
	}
	return open[connlimit.Victim(guests, connlimit.Ends)]
}

// order returns -1 if a is false and b is true, 1 for the opposite, and 0 if they are equal.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// addressFrom returns the peer's IP address, the zero address if it has none.
func addressFrom(conn net.Conn) netip.Addr {
	at, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return at.Addr().Unmap()
}
