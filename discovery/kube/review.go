package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// TokenReview asks an API server about a token. Like AdmissionReview it has the fields that are used.
type TokenReview struct {
	metav1.TypeMeta `json:",inline"`
	Spec            TokenReviewSpec   `json:"spec"`
	Status          TokenReviewStatus `json:"status,omitzero"`
}

// TokenReviewVersion is the API version of a TokenReview.
var TokenReviewVersion = schema.GroupVersion{Group: "authentication.k8s.io", Version: "v1"}

// TokenReviewSpec is the question.
type TokenReviewSpec struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences"`
}

// TokenReviewStatus is the answer.
type TokenReviewStatus struct {
	Authenticated bool      `json:"authenticated"`
	User          TokenUser `json:"user"`
	Audiences     []string  `json:"audiences"`
	Error         string    `json:"error"`
}

// TokenUser is the owner of a token.
type TokenUser struct {
	Username string              `json:"username"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}
