package client

import (
	"context"
	"time"
)

// Patience says how often to ask, and how long.
type Patience struct {
	Interval time.Duration // between two questions; the first ones follow each other more quickly
	Limit    time.Duration // after which no question is asked; 0 for none. The first one is always asked
}

// Until asks until there is no complaint, and returns nil then. When the patience or ctx ends it returns the last
// complaint. tell hears each of them.
func (p Patience) Until(ctx context.Context, ask func(context.Context) error, tell func(error)) error {
	began := time.Now()
	var last error
	for n := 0; ; n++ {
		complaint := ask(ctx)
		switch {
		case complaint == nil:
			return nil
		case last == nil, ctx.Err() == nil: // a question that ctx cut short has learnt nothing
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

// firstPause is short beside what starts a program takes: most often the answer is a moment away.
const firstPause = 10 * time.Millisecond

// pause is the time after question n, counted from 0: it doubles up to the interval.
func pause(n int, interval time.Duration) time.Duration {
	const enough = 30 // doublings that exceed any interval, and overflow nothing
	return min(interval, firstPause<<min(n, enough))
}
