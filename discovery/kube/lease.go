package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease returns the lock of client-go for a Lease.
func (c *Client) lease(namespace, name, identity string) (resourcelock.Interface, error) {
	leases, err := coordination.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		return nil, fmt.Errorf("make a client of Leases: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}

// observed is a lock with a time limit for its requests. It logs errors of the lock and the replica that holds it,
// which client-go does not log.
type observed struct {
	resourcelock.Interface
	timeout time.Duration
	log     *slog.Logger
	fault   string // that was reported last
	holder  string // that was reported last
}

func (o *observed) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	record, raw, err := o.Interface.Get(ctx)
	if o.outcome(err); err == nil {
		o.seen(record.HolderIdentity)
	}
	return record, raw, err
}

func (o *observed) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return o.write(ctx, record, o.Interface.Create)
}

func (o *observed) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return o.write(ctx, record, o.Interface.Update)
}

func (o *observed) write(ctx context.Context, record resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err := do(ctx, record)
	if o.outcome(err); err == nil {
		o.holder = record.HolderIdentity
	}
	return err
}

// outcome logs an error once, and once more when requests succeed again. A conflict with another replica, and a Lease
// that does not exist yet, are no errors.
func (o *observed) outcome(err error) {
	if err == nil || apierrors.IsNotFound(err) && !namespaceIsGone(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		if o.fault != "" {
			o.log.Info("the lease can be asked for again")
		}
		o.fault = ""
		return
	}
	if errors.Is(err, context.Canceled) {
		return
	}
	if o.fault == "" {
		o.log.Error("the lease cannot be asked for or renewed", "err", err)
	}
	o.fault = err.Error()
}

// namespaceIsGone reports whether the namespace of the Lease does not exist, so that the Lease cannot be created.
func namespaceIsGone(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// seen logs that another replica leads, once for each.
func (o *observed) seen(holder string) {
	if holder != "" && holder != o.holder && holder != o.Identity() {
		o.log.Info("another replica leads", "leader", holder)
	}
	o.holder = holder
}

// release releases the Lease, if this replica holds it.
func (o *observed) release(ctx context.Context) error {
	record, _, err := o.Get(ctx)
	if err != nil || record.HolderIdentity != o.Identity() {
		return err
	}
	record.HolderIdentity, record.LeaseDurationSeconds, record.RenewTime = "", 1, metav1.Now()
	return o.Update(ctx, *record)
}
