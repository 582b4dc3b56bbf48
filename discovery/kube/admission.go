package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The objects of admission.k8s.io/v1, with the fields that a webhook here reads or writes. Those of k8s.io/api come with a
// protobuf codec, and so would every type of authentication.k8s.io.
const (
	AdmissionVersion   = "admission.k8s.io/v1"
	OperationCreate    = "CREATE"
	PatchTypeJSONPatch = "JSONPatch"
)

// AdmissionReview is a request of the API server, or the response to it.
type AdmissionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *AdmissionRequest  `json:"request,omitempty"`
	Response        *AdmissionResponse `json:"response,omitempty"`
}

// AdmissionRequest is about an object that is to be written.
type AdmissionRequest struct {
	UID         types.UID               `json:"uid"`
	Kind        metav1.GroupVersionKind `json:"kind"`
	SubResource string                  `json:"subResource,omitempty"`
	Name        string                  `json:"name,omitempty"`
	Namespace   string                  `json:"namespace,omitempty"`
	Operation   string                  `json:"operation"`
	Object      runtime.RawExtension    `json:"object,omitempty"`    // empty for a deletion
	OldObject   runtime.RawExtension    `json:"oldObject,omitempty"` // empty for a creation
}

// AdmissionResponse admits an object, as it is or with a patch, or says why not.
type AdmissionResponse struct {
	UID              types.UID         `json:"uid"`
	Allowed          bool              `json:"allowed"`
	Result           *metav1.Status    `json:"status,omitempty"`
	Patch            []byte            `json:"patch,omitempty"`
	PatchType        *string           `json:"patchType,omitempty"`
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
	Warnings         []string          `json:"warnings,omitempty"`
}
