package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The versions of the objects below.
var (
	leaseVersion = schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}
	eventVersion = schema.GroupVersion{Group: "events.k8s.io", Version: "v1"}
)

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

// ObjectEvent is an Event of the API, with the fields that are written.
type ObjectEvent struct {
	metav1.ObjectMeta   `json:"metadata,omitempty"`
	EventTime           metav1.MicroTime       `json:"eventTime"`
	ReportingController string                 `json:"reportingController,omitempty"`
	ReportingInstance   string                 `json:"reportingInstance,omitempty"`
	Action              string                 `json:"action,omitempty"`
	Reason              string                 `json:"reason,omitempty"`
	Regarding           corev1.ObjectReference `json:"regarding,omitempty"`
	Note                string                 `json:"note,omitempty"`
	Type                string                 `json:"type,omitempty"`
}
