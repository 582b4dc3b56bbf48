package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"sort"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Store changes objects in the API server for a user.
type Store struct {
	client *kube.Client
	force  bool
}

// applier is the field manager of the fields that a user applies.
const applier = "discovery-apply"

// NewStore returns the store of a client. force takes over fields that another manager owns.
func NewStore(client *kube.Client, force bool) *Store { return &Store{client, force} }

func (s *Store) resource(kind, version, namespace string) (*kube.Resource, error) {
	for _, r := range config.Resources() {
		if r.Kind == kind {
			return s.client.Resource(schema.GroupVersionResource{Group: r.Group, Version: version, Resource: r.Plural}, namespace)
		}
	}
	return nil, fmt.Errorf("%s is no kind of Istio's that is served", kind)
}

// Apply writes an object by server-side apply. verb is the result: created, configured or unchanged; revision is the
// new resourceVersion.
func (s *Store) Apply(ctx context.Context, w config.Written) (verb, revision string, err error) {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(w.JSON); err != nil {
		return "", "", fmt.Errorf("read what is to be applied: %w", err)
	}
	for _, own := range [][]string{
		{"status"}, {"metadata", "managedFields"}, {"metadata", "resourceVersion"}, {"metadata", "uid"}, {"metadata", "generation"}, {"metadata", "creationTimestamp"},
	} {
		unstructured.RemoveNestedField(o.Object, own...) // the API server makes these
	}
	o.SetNamespace(w.Namespace)
	client, err := s.resource(w.Kind, o.GroupVersionKind().Version, w.Namespace)
	if err != nil {
		return "", "", err
	}
	before, after := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	verb = "configured"
	switch err := client.Get(ctx, w.Name, before); {
	case apierrors.IsNotFound(err):
		verb = "created"
	case err != nil:
		return "", "", explained(err)
	}
	if err := client.Apply(ctx, w.Name, "", applier, s.force, o, after); err != nil {
		return "", "", explained(err)
	}
	if before.GetResourceVersion() == after.GetResourceVersion() {
		verb = "unchanged"
	}
	return verb, after.GetResourceVersion(), nil
}

// explained adds a hint to an error of the API server.
func explained(err error) error {
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w; with --force-conflicts discovery takes these fields over", err)
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse): // of a path that it does not serve
		return fmt.Errorf("%w: want Istio's definitions installed there", err)
	default:
		return err
	}
}

// Objects returns the objects of a kind in the best version that is served, ordered by namespace and name; of one namespace and
// name, unless these are empty.
func (s *Store) Objects(ctx context.Context, kind, namespace, name string) (out []config.Written, err error) {
	version, err := s.version(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	client, err := s.resource(kind, version, namespace)
	if err != nil {
		return nil, err
	}
	fields, all := "", &unstructured.UnstructuredList{}
	if name != "" {
		fields = "metadata.name=" + name
	}
	if err := client.List(ctx, fields, 0, all); err != nil {
		return nil, explained(err)
	}
	for _, o := range all.Items {
		o.SetManagedFields(nil)
		data, err := o.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("write %s %s/%s: %w", kind, o.GetNamespace(), o.GetName(), err)
		}
		out = append(out, config.Written{
			APIVersion: o.GetAPIVersion(), Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Revision: o.GetResourceVersion(), JSON: bytes.TrimSpace(data),
		})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Namespace+"/"+out[i].Name < out[j].Namespace+"/"+out[j].Name })
	return out, nil
}

// version returns the best version of a kind that the API server serves.
func (s *Store) version(ctx context.Context, kind, namespace string) (string, error) {
	for _, r := range config.Resources() {
		if r.Kind != kind {
			continue
		}
		for _, v := range r.Versions {
			client, err := s.resource(kind, v, namespace)
			if err != nil {
				return "", err
			}
			if err := client.List(ctx, "", 1, &unstructured.UnstructuredList{}); !apierrors.IsNotFound(err) {
				return v, err
			}
		}
	}
	return "", fmt.Errorf("the API server has no %s: want Istio's definitions installed there", kind)
}

// Delete deletes an object.
func (s *Store) Delete(ctx context.Context, kind, namespace, name string) error {
	version, err := s.version(ctx, kind, namespace)
	if err != nil {
		return err
	}
	client, err := s.resource(kind, version, namespace)
	if err != nil {
		return err
	}
	if err := client.Delete(ctx, name); apierrors.IsNotFound(err) {
		return config.ErrNotThere
	} else if err != nil {
		return err
	}
	return nil
}
