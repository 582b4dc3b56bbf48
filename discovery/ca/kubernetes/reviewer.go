package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/server"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

const (
	reviewTime = 5 * time.Second
	atOnce     = 32 // reviews at the same time
	comeAgain  = 2 * time.Second
	manager    = "pilotlight-discovery"
)

// Reviewer asks an API server about tokens. It implements server.Authenticator.
type Reviewer struct {
	connect func() (*kube.Client, error)
	room    chan struct{}

	mu     sync.Mutex
	client *kube.Client // nil until the first review, and after one that failed
}

// NewReviewer returns a Reviewer that connects when it is asked first, and again after a failure.
func NewReviewer(connect func() (*kube.Client, error)) *Reviewer {
	return &Reviewer{connect: connect, room: make(chan struct{}, atOnce)}
}

// Close closes the connections to the API server.
func (r *Reviewer) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		r.client.Close()
		r.client = nil
	}
}

// Identify returns the identity of a service account that has shown a token.
func (r *Reviewer) Identify(ctx context.Context, token, trustDomain string) (ca.Identity, error) {
	if err := shown(token); err != nil {
		return ca.Identity{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	select {
	case r.room <- struct{}{}:
		defer func() { <-r.room }()
	case <-ctx.Done():
		return ca.Identity{}, &server.Busy{Cause: "unreachable", After: comeAgain, Err: fmt.Errorf("%d tokens are under review: %w", atOnce, ctx.Err())}
	}
	status, err := r.review(ctx, token)
	if err != nil {
		return ca.Identity{}, err
	}
	return judge(status, trustDomain)
}

// review asks the API server. Its error is a *server.Busy unless the API server finds fault with the token.
func (r *Reviewer) review(ctx context.Context, token string) (kube.TokenReviewStatus, error) {
	unreachable := func(err error) error {
		return &server.Busy{Cause: "unreachable", After: comeAgain, Err: fmt.Errorf("ask the API server about a token: %w", err)}
	}
	client, err := r.connected()
	if err != nil {
		return kube.TokenReviewStatus{}, unreachable(err)
	}
	reviews, err := client.Resource(kube.TokenReviewVersion.WithResource("tokenreviews"), "")
	if err != nil {
		return kube.TokenReviewStatus{}, unreachable(err)
	}
	review := kube.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: kube.TokenReviewVersion.String(), Kind: "TokenReview"},
		Spec:     kube.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}
	var answer kube.TokenReview
	switch err := reviews.Create(ctx, manager, review, &answer); {
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return kube.TokenReviewStatus{}, fmt.Errorf("the API server refuses the token: %w", err)
	case err != nil:
		r.drop(client, err)
		return kube.TokenReviewStatus{}, unreachable(err)
	}
	return answer.Status, nil
}

func (r *Reviewer) connected() (*kube.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		return r.client, nil
	}
	client, err := r.connect()
	r.client = client
	return client, err
}

// drop makes the next review connect again: its credentials may have been replaced. A caller that has gone is no
// failure.
func (r *Reviewer) drop(client *kube.Client, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client == client {
		r.client = nil
	}
}
