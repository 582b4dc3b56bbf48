package kube

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// candidate is one replica's part in the election. One goroutine uses it.
//
//	acquire: read ──▶ free ──▶ write ──▶ held        keep: wait ──▶ write ──▶ held
//	  ▲        │ no              │ conflict            ▲              │ another holds it, or renewalTime is over
//	  └─ wait ─┴─────────────────┘                     └── error ─────┴──▶ lost
type candidate struct {
	leases
	identity string
	log      *slog.Logger
	renewed  func(time.Time) // is called when the lease is taken, renewed and lost: the zero time

	sight sight
	doubt bool      // a write has failed, and may have been done
	last  time.Time // when the last renewal was sent; zero while the lease is not held
	fault bool      // the last request failed, which is logged
	other string    // the holder that was logged last
}

// acquire waits until this replica holds the lease; false if ctx is done first.
func (c *candidate) acquire(ctx context.Context) bool {
	for ctx.Err() == nil {
		if c.read(ctx) && c.sight.free(c.identity, time.Now()) && c.write(ctx) == nil {
			return true
		}
		c.pause(ctx, retryTime+time.Duration(rand.Float64()*1.2*float64(retryTime)), nil)
	}
	return false
}

// keep renews the lease until done is closed or the lease is lost.
func (c *candidate) keep(ctx context.Context, done <-chan struct{}) {
	defer c.set(time.Time{})
	for left := renewalTime; left > 0; left = leftAt(c.last, time.Now()) {
		if c.pause(ctx, min(retryTime, left), done) || c.renew(ctx) {
			return
		}
	}
}

// renew renews the lease once, and reports whether another replica holds it. After another error keep tries again.
func (c *candidate) renew(ctx context.Context) (lost bool) {
	ctx, cancel := context.WithTimeout(ctx, leftAt(c.last, time.Now()))
	defer cancel()
	err := c.write(ctx)
	if err == nil || !ordinary(err) || !c.read(ctx) {
		return false
	}
	if who := holder(c.sight.lease); who != "" && who != c.identity {
		return true
	}
	_ = c.write(ctx) // it was changed by a person; an error is logged
	return false
}

// release lets another replica take the lease at once, if this one holds it.
func (c *candidate) release(ctx context.Context) error {
	defer c.set(time.Time{})
	if !c.doubt && (c.sight.lease == nil || holder(c.sight.lease) != c.identity) {
		return nil
	}
	if !c.read(ctx) || holder(c.sight.lease) != c.identity {
		return ctx.Err()
	}
	_, err := c.update(ctx, c.sight.released(time.Now()))
	return err
}

// read reads the Lease, and reports whether the API server has answered.
func (c *candidate) read(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, renewalTime/2)
	defer cancel()
	lease, err := c.get(ctx)
	c.outcome(err)
	if apierrors.IsNotFound(err) {
		lease, err = nil, nil
	}
	if err != nil {
		return false
	}
	c.sight, c.doubt = c.sight.next(lease, time.Now()), false
	if who := holder(lease); who != c.other {
		if c.other = who; who != "" && who != c.identity {
			c.log.Info("another replica leads", "leader", who)
		}
	}
	return true
}

// write takes the lease, or renews it. The time of the lease counts from before the request.
func (c *candidate) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewalTime/2)
	defer cancel()
	now := time.Now()
	do := c.update
	if c.sight.lease == nil {
		do = c.create
	}
	lease, err := do(ctx, c.sight.held(c.identity, now))
	if c.outcome(err); err != nil {
		c.doubt = true
		return err
	}
	c.sight, c.other, c.doubt = sight{lease, now}, c.identity, false
	c.set(now)
	return nil
}

func (c *candidate) set(at time.Time) {
	c.last = at
	c.renewed(at)
}

// pause waits; it reports whether done was closed meanwhile.
func (c *candidate) pause(ctx context.Context, long time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-done:
		return true
	}
	return false
}

// outcome logs an error once, and once more when requests succeed again.
func (c *candidate) outcome(err error) {
	switch {
	case ordinary(err):
		if c.fault {
			c.log.Info("the lease can be asked for again")
		}
		c.fault = false
	case errors.Is(err, context.Canceled):
	default:
		if !c.fault {
			c.log.Error("the lease cannot be asked for or renewed", "err", err)
		}
		c.fault = true
	}
}
