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

// How long a leader stays one. A leader that cannot renew its lease ends renewal + retry after the last time that it could, and
// another one begins lease after that.
const (
	leaseTime   = 15 * time.Second
	renewalTime = 10 * time.Second
	retryTime   = 2 * time.Second // while waiting up to 2.2 times as long, at random

	settleTime = 3 * time.Second // for the release of a lease, when everything stops
)

// Election runs functions in one of several replicas: in the one that holds a Lease. Run runs it, once. It is a
// prometheus.Collector.
type Election struct {
	Connect         func() (*Client, error) // called by Run, which closes the client's connections at its end
	Namespace, Name string                  // of the Lease; it is made if it is not there, its namespace is not
	Identity        string                  // of this replica, and no other: not even of an earlier run of it
	Log             *slog.Logger

	leading atomic.Bool
	locked  func() (resourcelock.Interface, error) // for a test to set
}

// Leading reports whether the functions run here.
func (e *Election) Leading() bool { return e.leading.Load() }

// Run runs each of the functions while this replica leads, until ctx is done; then it gives the lease back. The context of a
// function is done when the replica no longer leads, or is to stop: the function returns then, at once, so that no other
// replica begins before. One that returns an error is run again after a while. An API server that is away, or refuses, is
// waited for: nothing that it does makes Run return.
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

// lock returns the Lease. The files that it needs to connect may come later.
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

// term waits until this replica leads, and leads until it no longer does or ctx is done.
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
	<-ctx.Done() // a leader without anything to do stays one
}

var leading = prometheus.NewDesc("pilotlight_leading", "1 while this replica leads: it holds the lease.", []string{"lease"}, nil)

// Describe names the metric.
func (e *Election) Describe(out chan<- *prometheus.Desc) { out <- leading }

// Collect tells whether this replica leads.
func (e *Election) Collect(out chan<- prometheus.Metric) {
	value := 0.0
	if e.Leading() {
		value = 1
	}
	out <- prometheus.MustNewConstMetric(leading, prometheus.GaugeValue, value, e.Namespace+"/"+e.Name)
}
