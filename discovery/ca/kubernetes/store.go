package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

const (
	requestTime = 10 * time.Second
	tries       = 8 // of a change that another one was quicker than
)

// At is where a Secret is.
type At struct{ Namespace, Name string }

func (a At) String() string { return "Secret " + a.Namespace + "/" + a.Name }

// secrets are requests about one Secret. Their errors are those of apimachinery's errors.
type secrets interface {
	get(ctx context.Context) (*corev1.Secret, error) // nil for none
	create(ctx context.Context, o *corev1.Secret) error
	update(ctx context.Context, o *corev1.Secret) (*corev1.Secret, error)
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

func (s *Shared) opened(client *kube.Client) (secrets, error) {
	if s.open != nil {
		return s.open(client)
	}
	return open(client, s.In)
}

// get asks by a list, which is as new as the store of the API server is, and which who follows the Secret may do.
func (r remote) get(ctx context.Context) (*corev1.Secret, error) {
	var all corev1.SecretList
	if err := r.resource.List(ctx, "metadata.name="+r.Name, 1, &all); err != nil || len(all.Items) == 0 {
		return nil, err
	}
	return &all.Items[0], nil
}

func (r remote) create(ctx context.Context, o *corev1.Secret) error {
	return r.resource.Create(ctx, manager, o, nil)
}

func (r remote) update(ctx context.Context, o *corev1.Secret) (*corev1.Secret, error) {
	o = o.DeepCopy()
	o.APIVersion, o.Kind, o.ManagedFields = "v1", "Secret", nil
	var out corev1.Secret
	return &out, r.resource.Update(ctx, r.Name, manager, o, &out)
}

func read(ctx context.Context, at secrets) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return at.get(ctx)
}

func write(ctx context.Context, at secrets, o *corev1.Secret) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return at.update(ctx, o)
}

// errNone is the error for a Secret that is not there.
var errNone = errors.New("is not there")

// change stores what do makes of a Secret's content, unless that is nil, again from the start where another one was
// quicker. make is whether a Secret that is missing is made.
func change(ctx context.Context, at secrets, where At, mayMake bool, do func(data) (data, error)) error {
	for range tries {
		found, err := read(ctx, at)
		if err != nil {
			return fmt.Errorf("read %s: %w", where, err)
		}
		if found == nil && !mayMake {
			return fmt.Errorf("%s %w", where, errNone)
		}
		var content data
		if found != nil {
			content = found.Data
		}
		next, err := do(content)
		if err != nil || next == nil {
			return err
		}
		if found == nil {
			err = at.create(ctx, secretWith(where.Namespace, where.Name, next))
		} else {
			found.Data = next
			_, err = write(ctx, at, found)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			if err != nil {
				err = fmt.Errorf("write %s: %w", where, err)
			}
			return err
		}
	}
	return fmt.Errorf("write %s: others have changed it %d times meanwhile", where, tries)
}

// Roots rotates the root of an authority in a Secret, for a person.
type Roots struct {
	Client *kube.Client
	In     At
}

// Rotate begins to replace the root, or returns the rotation that is under way.
func (r Roots) Rotate(ctx context.Context, again bool, at time.Time) (begun ca.Rotation, err error) {
	secrets, err := open(r.Client, r.In)
	if err != nil {
		return ca.Rotation{}, err
	}
	err = change(ctx, secrets, r.In, false, func(d data) (next data, err error) {
		next, begun, err = toBegin(d, again, at)
		return next, named(r.In, err)
	})
	return begun, err
}

// State returns the authority, and its last rotation.
func (r Roots) State(ctx context.Context, at time.Time) (state ca.State, last ca.Rotation, err error) {
	secrets, err := open(r.Client, r.In)
	if err != nil {
		return state, last, err
	}
	err = change(ctx, secrets, r.In, false, func(d data) (data, error) {
		if state, err = stateOf(d, at); err == nil && len(d[ca.LastFile]) > 0 {
			last, err = ca.ReadRotation(d[ca.LastFile])
		}
		return nil, named(r.In, err)
	})
	return state, last, err
}

// Abort ends a rotation whose new root has signed nothing.
func (r Roots) Abort(ctx context.Context, at time.Time) error {
	secrets, err := open(r.Client, r.In)
	if err != nil {
		return err
	}
	return change(ctx, secrets, r.In, false, func(d data) (data, error) {
		next, err := toAbort(d, at)
		return next, named(r.In, err)
	})
}

func named(at At, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", at, err)
	}
	return err
}
