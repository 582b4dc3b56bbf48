package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"golang.org/x/sync/errgroup"
)

// Times of the election. A leader that cannot renew its lease stops leading renewalTime + retryTime after its last
// renewal at the latest; another replica starts to lead leaseTime after that renewal at the earliest.
const (
	leaseTime   = 15 * time.Second
	renewalTime = 10 * time.Second
	retryTime   = 2 * time.Second // a replica that waits for the lease tries after up to 2.2 times this, at random

	settleTime = 3 * time.Second // limit for the release of the lease at the end of Run
)

// Election runs functions in one of several replicas, the one that holds a Lease. Run may be called once. An Election
// is a prometheus.Collector.
type Election struct {
	Connect         func() (*Client, error) // called by Run, which closes the client's connections at its end
	Namespace, Name string                  // of the Lease; it is created if it does not exist, its namespace is not
	Identity        string                  // of this process: unlike that of any other replica, or of an earlier process of this replica
	Log             *slog.Logger

	leading atomic.Bool
	locked  func() (resourcelock.Interface, error) // for a test to set
}

// Leading reports whether this replica leads and runs the functions.
func (e *Election) Leading() bool { return e.leading.Load() }

// Run runs each of the functions while this replica leads, until ctx is done; then it releases the lease. The context
// of a function is done when the replica no longer leads, or when ctx is done. The function must then return at once,
// before another replica starts to lead. A function that returns an error is called again after a pause. Run waits for
// an API server that is away or refuses: no answer of it makes Run return.
func (e *Election) Run(ctx context.Context, lead ...func(context.Context) error) error {
	log := e.Log.With("lease", e.Namespace+"/"+e.Name, "identity", e.Identity)
	lock, closing, err := e.lock(ctx, log)
	if err != nil {
		return nil // it was stopped
	}
	defer closing()
	for ctx.Err() == nil {
		if err := e.term(ctx, lock, log, lead); err != nil {
			return err
		}
	}
	if lock.holder != e.Identity {
		return nil
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := lock.release(late); err != nil {
		log.Warn("the lease is not released, another replica waits until it expires", "err", err)
	}
	return nil
}

// lock returns the Lease. It tries again until the client is made: files for the connection may appear later.
func (e *Election) lock(ctx context.Context, log *slog.Logger) (lock *observed, closing func(), err error) {
	connect := e.locked
	closing = func() {}
	if connect == nil {
		connect = func() (resourcelock.Interface, error) {
			client, err := e.Connect()
			if err != nil {
				return nil, err
			}
			closing = client.Close
			return client.lease(e.Namespace, e.Name, e.Identity)
		}
	}
	logged := ""
	err = wait.PollUntilContextCancel(ctx, retryTime, true, func(context.Context) (bool, error) {
		l, err := connect()
		if err == nil {
			lock = &observed{Interface: l, timeout: renewalTime / 2, log: log}
			return true, nil
		}
		if logged != err.Error() {
			log.Error("no leader is elected", "err", err)
		}
		logged = err.Error()
		return false, nil
	})
	return lock, closing, err
}

// term waits until this replica leads, and runs the functions until it no longer leads or ctx is done.
func (e *Election) term(ctx context.Context, lock *observed, log *slog.Logger, lead []func(context.Context) error) error {
	begun := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: e.Name, LeaseDuration: leaseTime, RenewDeadline: renewalTime, RetryPeriod: retryTime,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { begun <- ctx },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx)) // the lease is kept until the functions have ended
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(renewing)
	}()
	defer func() {
		stop()
		<-over
	}()
	select {
	case <-ctx.Done():
	case <-over:
	case leading := <-begun:
		log.Info("leading")
		e.leading.Store(true)
		leading, end := context.WithCancel(leading)
		defer context.AfterFunc(ctx, end)()
		e.lead(leading, log, lead)
		end()
		e.leading.Store(false)
		log.Info("no longer leading", "stopped", ctx.Err() != nil)
	}
	return nil
}

// lead runs the functions until ctx is done and they have returned.
func (e *Election) lead(ctx context.Context, log *slog.Logger, lead []func(context.Context) error) {
	var g errgroup.Group
	for _, do := range lead {
		g.Go(func() error {
			ctx, done := context.WithCancel(ctx)
			defer done()
			wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
				err := do(ctx)
				switch {
				case err == nil:
					done()
				case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
					log.Error("what the leader does failed, it is begun again", "err", err)
				}
			}, leaseTime, 0.5, true)
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
