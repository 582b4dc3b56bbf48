//go:build node

package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// plainClients are clients without a sidecar, on kept connections to a Service.
type plainClients struct {
	http1 *lab.Load

	stop    context.CancelFunc
	clients sync.WaitGroup
	mu      sync.Mutex
	http2   map[string]int // answers by status or error
}

// plain starts clients that ask for a path at address.
func (n *node) plain(address, path string) *plainClients {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	p := &plainClients{http1: lab.StartSlowLoad(address, "http://"+address+path, 6, 1, 10*time.Millisecond), stop: cancel, http2: map[string]int{}}
	request, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
	check(n.t, err)
	for range 3 {
		p.clients.Go(func() { p.overHTTP2(ctx, request) })
	}
	return p
}

// overHTTP2 sends requests over one connection, until the server closes it.
func (p *plainClients) overHTTP2(ctx context.Context, request *http.Request) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
		answer := "200 OK"
		if response, err := transport.RoundTrip(request); err != nil {
			answer = err.Error()
		} else {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if answer = response.Status; err != nil {
				answer = fmt.Sprintf("%s: %v", response.Status, err)
			}
		}
		p.mu.Lock()
		p.http2[answer]++
		p.mu.Unlock()
	}
}

// unharmed ends the clients, and fails the test with each request that failed.
func (p *plainClients) unharmed(n *node) {
	n.t.Helper()
	p.stop()
	p.clients.Wait()
	n.t.Log("clients without a sidecar, over HTTP/1.1 and HTTP/2:")
	lab.Unharmed(n.t, p.http1)
	n.t.Logf("%v", p.http2)
	if p.http2["200 OK"] < 100 || len(p.http2) > 1 {
		n.t.Errorf("answers over HTTP/2: %v, want at least 100, all 200 OK", p.http2)
	}
}
