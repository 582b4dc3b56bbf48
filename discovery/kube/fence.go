package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrNotLeading is the error of a write of a Lead while this replica does not lead. Nothing was sent.
var ErrNotLeading = errors.New("this replica does not hold the lease, so it does not write")

// fence lets writes pass while lasts says that there is time left. It asks for each write when the write is sent: a process
// that was frozen, and does not know it yet, sends none. A write that has not been sent when the time is over is cancelled.
type fence struct {
	next  http.RoundTripper
	lasts func() time.Duration
}

// RoundTrip implements http.RoundTripper.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return f.next.RoundTrip(r)
	}
	left := f.lasts()
	if left <= 0 {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, ErrNotLeading
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), left, ErrNotLeading)
	answer, err := f.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	answer.Body = closing{answer.Body, cancel}
	return answer, nil
}

// closing is a body that ends its request when it is closed.
type closing struct {
	io.ReadCloser
	end func()
}

func (c closing) Close() error {
	defer c.end()
	return c.ReadCloser.Close()
}

// fenced returns the client with its writes behind a fence. Both have the same connections.
func (c *Client) fenced(lasts func() time.Duration) *Client {
	own := *c.http
	own.Transport = fence{c.http.Transport, lasts}
	return &Client{c.config, &own, c.dialer}
}
