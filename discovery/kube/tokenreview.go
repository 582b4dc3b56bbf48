package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
