package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

const requestTime = 10 * time.Second

// secrets are requests about the Secrets of a namespace. Their errors are those of apimachinery's errors.
type secrets interface {
	all(ctx context.Context) ([]corev1.Secret, error)             // with the label
	get(ctx context.Context, name string) (*corev1.Secret, error) // nil for none
	put(ctx context.Context, o *corev1.Secret) (*corev1.Secret, error)
	remove(ctx context.Context, name string) error
}

// remote are secrets of an API server.
type remote struct {
	At
	resource *kube.Resource
}

func open(client *kube.Client, at At) (secrets, error) {
	resource, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"), at.Namespace)
	return remote{at, resource}, err
}

func (r remote) all(ctx context.Context) ([]corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var out corev1.SecretList
	err := r.resource.Labelled(ctx, r.selector(), &out)
	return out.Items, err
}

// get asks by a list, which needs no further right than to follow the Secrets.
func (r remote) get(ctx context.Context, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var all corev1.SecretList
	if err := r.resource.List(ctx, "metadata.name="+name, 1, &all); err != nil || len(all.Items) == 0 {
		return nil, err
	}
	return &all.Items[0], nil
}

// put creates an object without a resourceVersion, and replaces one that has that version.
func (r remote) put(ctx context.Context, o *corev1.Secret) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var out corev1.Secret
	if o.ResourceVersion == "" {
		return &out, r.resource.Create(ctx, manager, o, &out)
	}
	return &out, r.resource.Update(ctx, o.Name, manager, o, &out)
}

func (r remote) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return r.resource.Delete(ctx, name)
}
