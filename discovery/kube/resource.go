package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Resource reads and writes the objects of one resource in one namespace, as JSON. An object is any value that encoding/json
// writes as the API server wants it, such as a struct of k8s.io/api or an Unstructured; answers are read in the same way.
// No request is sent twice. The errors are those of apimachinery's errors.
type Resource struct {
	client    *rest.RESTClient
	resource  string
	namespace string // empty for a resource without namespaces, or for those of all
}

// Resource returns a client of a resource. Writes name their manager in managedFields.
func (c *Client) Resource(of schema.GroupVersionResource, namespace string) (*Resource, error) {
	client, err := c.untyped(of.GroupVersion().WithKind("Any")) // answers are decoded here, except for a Status
	if err != nil {
		return nil, err
	}
	return &Resource{client, of.Resource, namespace}, nil
}

// Get reads an object into out.
func (r *Resource) Get(ctx context.Context, name string, out any) error {
	return answered(ctx, r.about(r.client.Get()).Name(name), out)
}

// List reads the objects of a field selector, such as "metadata.name=x", into out; limit bounds their number, 0 for all.
func (r *Resource) List(ctx context.Context, fields string, limit int64, out any) error {
	options := &metav1.ListOptions{FieldSelector: fields, Limit: limit}
	return answered(ctx, r.about(r.client.Get()).VersionedParams(options, metav1.ParameterCodec), out)
}

// Labelled reads the objects of a label selector, such as "app=x", into out. They are as new as the store of the API server.
func (r *Resource) Labelled(ctx context.Context, labels string, out any) error {
	return answered(ctx, r.about(r.client.Get()).VersionedParams(&metav1.ListOptions{LabelSelector: labels}, metav1.ParameterCodec), out)
}

// Create creates an object, and reads the stored form into out, which may be nil.
func (r *Resource) Create(ctx context.Context, manager string, object, out any) error {
	return r.send(ctx, r.client.Post().SetHeader("Content-Type", "application/json"), manager, object, out)
}

// Update replaces an object. It fails with a conflict where the stored object has another resourceVersion.
func (r *Resource) Update(ctx context.Context, name, manager string, object, out any) error {
	return r.send(ctx, r.client.Put().SetHeader("Content-Type", "application/json").Name(name), manager, object, out)
}

// Patch applies a JSON patch to an object.
func (r *Resource) Patch(ctx context.Context, name, manager string, patch []byte) error {
	return r.send(ctx, r.client.Patch(types.JSONPatchType).Name(name), manager, json.RawMessage(patch), nil)
}

// Apply writes the manager's fields of an object by server-side apply, or those of its subresource. force takes over
// fields that another manager owns.
func (r *Resource) Apply(ctx context.Context, name, subresource, manager string, force bool, object, out any) error {
	request := r.client.Patch(types.ApplyPatchType).Name(name).Param("force", fmt.Sprint(force))
	if subresource != "" {
		request.SubResource(subresource)
	}
	return r.send(ctx, request, manager, object, out)
}

// Delete deletes an object.
func (r *Resource) Delete(ctx context.Context, name string) error {
	return answered(ctx, r.about(r.client.Delete()).Name(name), nil)
}

// about adds the resource to a request.
func (r *Resource) about(request *rest.Request) *rest.Request {
	return request.NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.resource).MaxRetries(0)
}

func (r *Resource) send(ctx context.Context, request *rest.Request, manager string, object, out any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("write an object of %s as JSON: %w", r.resource, err)
	}
	return answered(ctx, r.about(request).Param("fieldManager", manager).Body(body), out)
}

// answered sends a request and reads its answer into out, unless that is nil.
func answered(ctx context.Context, request *rest.Request, out any) error {
	answer := request.Do(ctx)
	if err := answer.Error(); err != nil || out == nil { // Raw would not say what the API server says
		return err
	}
	data, err := answer.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("read the answer of the API server: %w", err)
	}
	return nil
}

// statusOf returns what the API server says in an error; nil if the error is of another kind.
func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	out := status.Status()
	return &out
}
