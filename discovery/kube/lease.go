package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var leaseVersion = schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}

// Lease is that of the API with all its fields, since an update writes them all.
type Lease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              LeaseSpec `json:"spec,omitempty"`
}

// LeaseSpec has the holder of a Lease and its times.
type LeaseSpec struct {
	HolderIdentity       *string           `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds *int32            `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          *metav1.MicroTime `json:"acquireTime,omitempty"`
	RenewTime            *metav1.MicroTime `json:"renewTime,omitempty"`
	LeaseTransitions     *int32            `json:"leaseTransitions,omitempty"`
	Strategy             *string           `json:"strategy,omitempty"`
	PreferredHolder      *string           `json:"preferredHolder,omitempty"`
}

// clone returns a copy, nil of nil, whose fields may be set to other values. What they point to is shared, and is never written.
func (l *Lease) clone() *Lease {
	if l == nil {
		return nil
	}
	out := *l
	l.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// leases are the requests for one Lease. Each returns its present form; an update fails with a conflict where the Lease has
// another resourceVersion.
type leases interface {
	get(context.Context) (*Lease, error)
	create(context.Context, *Lease) (*Lease, error)
	update(context.Context, *Lease) (*Lease, error)
}

// sight is what a replica has seen of the Lease.
type sight struct {
	lease *Lease    // nil if it does not exist, or was not read yet
	since time.Time // when its present holder and renewal were seen first
}

// next returns the sight after another answer. Only a change of the holder or a renewal starts the time of the lease again.
func (s sight) next(lease *Lease, now time.Time) sight {
	if s.lease != nil && lease != nil && s.lease.UID == lease.UID && holder(s.lease) == holder(lease) && s.lease.Spec.RenewTime.Equal(lease.Spec.RenewTime) {
		return sight{lease, s.since}
	}
	return sight{lease, now}
}

// free reports whether a replica may take the Lease. Clocks of hosts differ, so the time counts from when this replica saw
// the last renewal, and the times in the Lease have no effect.
func (s sight) free(identity string, now time.Time) bool {
	if who := holder(s.lease); who == "" || who == identity {
		return true
	}
	lasts := leaseTime
	if n := s.lease.Spec.LeaseDurationSeconds; n != nil { // the holder is of a version with another one
		lasts = max(lasts, time.Duration(*n)*time.Second)
	}
	return now.Sub(s.since) > lasts
}

// held returns the Lease to write so that identity holds it.
func (s sight) held(identity string, now time.Time) *Lease {
	out := &Lease{}
	if s.lease != nil {
		out = s.lease.clone()
	}
	at, seconds := metav1.NewMicroTime(now), int32(leaseTime/time.Second)
	if holder(out) != identity {
		transitions := int32(0)
		if n := out.Spec.LeaseTransitions; n != nil {
			transitions = *n + 1
		}
		out.Spec.AcquireTime, out.Spec.LeaseTransitions = &at, &transitions
	}
	out.Spec.HolderIdentity, out.Spec.LeaseDurationSeconds, out.Spec.RenewTime = &identity, &seconds, &at
	return out
}

// released returns the Lease to write so that nobody holds it.
func (s sight) released(now time.Time) *Lease {
	out := s.lease.clone()
	nobody, at, seconds := "", metav1.NewMicroTime(now), int32(1)
	out.Spec.HolderIdentity, out.Spec.RenewTime, out.Spec.LeaseDurationSeconds = &nobody, &at, &seconds
	return out
}

func holder(lease *Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// elapsed returns the time since then: of the monotonic clock, or of the wall clock where that says more. The monotonic
// clock stands still while the machine is suspended, and the wall clock may be set back.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// apiLease is a Lease of an API server.
type apiLease struct {
	*Resource
	namespace, name string
}

func (c *Client) lease(namespace, name string) (leases, error) {
	r, err := c.Resource(leaseVersion.WithResource("leases"), namespace)
	if err != nil {
		return nil, err
	}
	return apiLease{r, namespace, name}, nil
}

func (l apiLease) get(ctx context.Context) (*Lease, error) {
	out := &Lease{}
	if err := l.Get(ctx, l.name, out); err != nil {
		return nil, err
	}
	return out, nil
}

func (l apiLease) create(ctx context.Context, lease *Lease) (*Lease, error) {
	lease.Namespace, lease.Name = l.namespace, l.name
	out := &Lease{}
	return out, l.Create(ctx, manager, lease, out)
}

func (l apiLease) update(ctx context.Context, lease *Lease) (*Lease, error) {
	out := &Lease{}
	return out, l.Update(ctx, l.name, manager, lease, out)
}

// ordinary reports whether an error of a request for the Lease is part of every election: the Lease does not exist yet, or
// another replica was faster.
func ordinary(err error) bool {
	return err == nil || apierrors.IsNotFound(err) && !namespaceIsGone(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// namespaceIsGone reports whether the namespace of the Lease does not exist, so that the Lease cannot be created.
func namespaceIsGone(err error) bool {
	status := statusOf(err)
	return status != nil && status.Details != nil && status.Details.Kind == "namespaces"
}

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
