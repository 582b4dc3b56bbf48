package envoy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Admin is a client of one epoch's admin. It keeps no connection: a kept one goes on talking to a parent that has
// handed over.
type Admin struct {
	Socket string // Unix socket
	client *http.Client
}

// NewAdmin returns a client of the admin at a Unix socket.
func NewAdmin(socket string) *Admin {
	a := &Admin{Socket: socket}
	a.client = &http.Client{Transport: a.Transport(), Timeout: adminTimeout}
	return a
}

const adminTimeout = 2 * time.Second // Envoy's main thread answers in milliseconds unless it is busy or frozen

// Transport sends any request to the admin, whatever host it names.
func (a *Admin) Transport() http.RoundTripper {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", a.Socket)
		},
	}
}

// Ready returns nil once Envoy serves: its /ready is 200 only in state LIVE.
func (a *Admin) Ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://envoy/ready", nil)
	if err != nil {
		return fmt.Errorf("ask Envoy's admin: %w", err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask Envoy's admin: %w", err)
	}
	defer response.Body.Close()
	state, _ := io.ReadAll(io.LimitReader(response.Body, 64))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", errNotReady, state)
	}
	return nil
}

// awaitReady polls until Envoy is ready, true, or ctx ends, false.
func (a *Admin) awaitReady(ctx context.Context) bool {
	began := time.Now()
	for a.Ready(ctx) != nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pollInterval(time.Since(began))):
		}
	}
	return true
}

// pollInterval is short while Envoy starts (100 to 200 ms on an idle machine), and relaxes when it waits for
// something else, such as discovery.
func pollInterval(waited time.Duration) time.Duration {
	return min(max(waited/50, 5*time.Millisecond), 100*time.Millisecond)
}
