package client

import (
	"context"
	"time"
)

// Patience configures how often and how long to repeat a request.
type Patience struct {
	Interval time.Duration // between two requests; the first ones follow each other more quickly
	Limit    time.Duration // after which no request is sent; 0 for none. The first one is always sent
}

// Until calls ask until it returns nil, and then returns nil. When the limit or ctx ends it returns the last error. It calls
// tell with each error.
func (p Patience) Until(ctx context.Context, ask func(context.Context) error, tell func(error)) error {
	began := time.Now()
	var last error
	for n := 0; ; n++ {
		complaint := ask(ctx)
		switch {
		case complaint == nil:
			return nil
		case last == nil, ctx.Err() == nil: // the error of a request that ctx has canceled says nothing of the server
			tell(complaint)
			last = complaint
		}
		wait := pause(n, p.Interval)
		if p.Limit > 0 {
			left := p.Limit - time.Since(began)
			if left <= 0 {
				return last
			}
			wait = min(wait, left)
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(wait):
		}
	}
}

// firstPause is short compared with the start of a program: most often the next request succeeds.
const firstPause = 10 * time.Millisecond

// pause returns the time to wait after request n, counted from 0: it doubles up to the interval.
func pause(n int, interval time.Duration) time.Duration {
	const enough = 30 // doublings that exceed any interval, and overflow nothing
	return min(interval, firstPause<<min(n, enough))
}
