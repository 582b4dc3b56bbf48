package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bounds of the HTTP ports. They have few clients, and ADS needs the descriptors.
const (
	maxConnections = 64               // of a port; for one more, the connection that has waited longest is closed
	headTimeout    = 10 * time.Second // of a request
	idleTimeout    = 30 * time.Second // between requests
	grace          = time.Second      // for requests that are in flight at the stop
)

// serveHTTP serves until ctx is done, on so many connections at most; then requests in flight may end within grace.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler, most int, log *slog.Logger) error {
	open := &connections{most: most, activity: map[net.Conn]activity{}}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, ConnState: open.track,
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

// connections are the connections of one port. A new one is never refused, since it may be a probe; an old one without
// a request is none.
type connections struct {
	most     int
	mu       sync.Mutex
	activity map[net.Conn]activity
	last     int
}

// activity is the state of a connection, and since when, as an increasing number.
type activity struct {
	busy  bool // a request is in flight
	since int
}

func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	switch state {
	case http.StateNew, http.StateIdle, http.StateActive:
		c.activity[conn] = activity{busy: state == http.StateActive, since: c.last}
	default:
		delete(c.activity, conn)
	}
	if len(c.activity) > c.most {
		victim := c.oldest()
		delete(c.activity, victim)
		_ = victim.Close() // the server notices
	}
}

// oldest returns the connection that has waited longest, of those without a request if there are any.
func (c *connections) oldest() (victim net.Conn) {
	for conn, p := range c.activity {
		if v := c.activity[victim]; victim == nil || v.busy && !p.busy || v.busy == p.busy && p.since < v.since {
			victim = conn
		}
	}
	return victim
}
