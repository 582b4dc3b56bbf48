package kube

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pilotlight/pilotlight/internal/retry"
)

// Times of the election. A leader that cannot renew its lease stops leading renewalTime after it has sent its last renewal;
// another replica starts to lead leaseTime after it has seen that renewal, at the earliest.
const (
	leaseTime   = 15 * time.Second
	renewalTime = 10 * time.Second
	retryTime   = 2 * time.Second // a replica that waits for the lease tries after up to 2.2 times this, at random

	settleTime = 3 * time.Second // limit for the release of the lease at the end of Run
)

// A function of the leader that failed is called again after a pause.
const (
	firstCall = 15 * time.Second
	lastCall  = 30 * time.Second
)

// Election runs functions in one of several replicas, the one that holds a Lease. Run may be called once. An Election
// is a prometheus.Collector.
type Election struct {
	Connect         func() (*Client, error) // called by Run, which closes the client's connections at its end, and by functions of the leader
	Namespace, Name string                  // of the Lease; it is created if it does not exist, its namespace is not
	Identity        string                  // of this process: unlike that of any other replica, or of an earlier process of this replica
	Log             *slog.Logger

	leading atomic.Bool
	mu      sync.Mutex
	renewed time.Time              // when the last renewal was sent; zero while the lease is not held
	locked  func() (leases, error) // for a test to set
}

// Leading reports whether this replica leads and runs the functions.
func (e *Election) Leading() bool { return e.leading.Load() }

// Holds reports whether this replica holds the lease now, by the clock: Leading and the context of a Lead may be late in a process that was frozen.
func (e *Election) Holds() bool { return e.left() > 0 }

// Lead is work that one replica does for all. Its clients read always, and write only while this replica holds the lease:
// each write is compared with the clock when it is sent, since a process that was frozen for longer than the lease runs on
// before a timer ends ctx. A write that is not allowed fails with ErrNotLeading. Lead closes the clients that it makes.
type Lead func(ctx context.Context, connect func() (*Client, error)) error

// writer connects like Connect, for a Lead.
func (e *Election) writer() (*Client, error) {
	client, err := e.Connect()
	if err != nil {
		return nil, err
	}
	return client.fenced(e.left), nil
}

// left returns for how long this replica may still write.
func (e *Election) left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return leftAt(e.renewed, time.Now())
}

// leftAt returns for how long the lease that was renewed then may be used; 0 or less if it may not.
func leftAt(renewed, now time.Time) time.Duration {
	if renewed.IsZero() {
		return 0
	}
	return renewalTime - elapsed(renewed, now)
}

func (e *Election) setRenewed(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.renewed = at
}

// Run runs each of the functions while this replica leads, until ctx is done; then it releases the lease. The context
// of a function is done when the replica no longer leads, or when ctx is done. The function must then return at once,
// before another replica starts to lead. A function that returns an error is called again after a pause. Run waits for
// an API server that is away or refuses: no answer of it makes Run return.
func (e *Election) Run(ctx context.Context, lead ...Lead) error {
	log := e.Log.With("lease", e.Namespace+"/"+e.Name, "identity", e.Identity)
	lock, closing := e.lock(ctx, log)
	if lock == nil {
		return nil // it was stopped
	}
	defer closing()
	c := &candidate{leases: lock, identity: e.Identity, log: log, renewed: e.setRenewed}
	for c.acquire(ctx) {
		e.term(ctx, c, lead)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := c.release(late); err != nil {
		log.Warn("the lease is not released, another replica waits until it expires", "err", err)
	}
	return nil
}

// lock returns the Lease; nil if ctx is done first. It tries again until the client is made: files for the connection may
// appear later.
func (e *Election) lock(ctx context.Context, log *slog.Logger) (lock leases, closing func()) {
	connect := e.locked
	closing = func() {}
	if connect == nil {
		connect = func() (leases, error) {
			client, err := e.Connect()
			if err != nil {
				return nil, err
			}
			closing = client.Close
			return client.lease(e.Namespace, e.Name)
		}
	}
	logged := ""
	retry.Delays{First: retryTime, Last: retryTime}.Do(ctx, func() (err error) {
		lock, err = connect()
		return err
	}, func(err error, _ time.Duration) {
		if logged != err.Error() {
			log.Error("no leader is elected", "err", err)
		}
		logged = err.Error()
	})
	if ctx.Err() != nil {
		closing()
		return nil, nil
	}
	return lock, closing
}

// term runs the functions until the lease is lost or ctx is done, and they have returned. It keeps the lease until then.
func (e *Election) term(ctx context.Context, c *candidate, lead []Lead) {
	c.log.Info("leading")
	e.leading.Store(true)
	leading, end := context.WithCancel(ctx)
	defer end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.lead(leading, c.log, lead)
	}()
	c.keep(context.WithoutCancel(ctx), done)
	end()
	<-done
	e.leading.Store(false)
	c.log.Info("no longer leading", "stopped", ctx.Err() != nil)
}

// lead runs the functions until ctx is done and they have returned.
func (e *Election) lead(ctx context.Context, log *slog.Logger, lead []Lead) {
	var g errgroup.Group
	for _, do := range lead {
		g.Go(func() error {
			again := retry.Delays{First: firstCall, Last: lastCall, Random: rand.Float64}
			again.Do(ctx, func() error { return do(ctx, e.writer) }, func(err error, pause time.Duration) {
				if !errors.Is(err, ErrNotLeading) { // its context ends at once
					log.Error("what the leader does failed, it is begun again", "err", err, "again", pause)
				}
			})
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	<-ctx.Done() // the replica leads also when all functions have returned
}

var leading = prometheus.NewDesc("pilotlight_leading", "1 while this replica leads: it holds the lease.", []string{"lease"}, nil)

// Describe names the metric.
func (e *Election) Describe(out chan<- *prometheus.Desc) { out <- leading }

// Collect sends 1 while this replica leads, else 0.
func (e *Election) Collect(out chan<- prometheus.Metric) {
	value := 0.0
	if e.Leading() {
		value = 1
	}
	out <- prometheus.MustNewConstMetric(leading, prometheus.GaugeValue, value, e.Namespace+"/"+e.Name)
}

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
