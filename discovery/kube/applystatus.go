package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ApplyStatus writes a manager's fields into the status of an object by server-side apply: fields that the manager owns
// and that are not in status are removed, fields of other managers stay. A status of nil removes all of the manager's
// fields.
func (c *Client) ApplyStatus(ctx context.Context, resource schema.GroupVersionResource, kind, namespace, name, manager string, status any) error {
	client, err := c.untyped(resource.GroupVersion().WithKind(kind))
	if err != nil {
		return err
	}
	object := map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name},
	}
	if status != nil {
		object["status"] = status
	}
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("write the status of %s %s/%s: %w", kind, namespace, name, err)
	}
	err = client.Patch(types.ApplyPatchType).Namespace(namespace).Resource(resource.Resource).Name(name).SubResource("status").
		Param("fieldManager", manager).Param("force", "true").Body(body).MaxRetries(0).Do(ctx).Into(&unstructured.Unstructured{})
	if err != nil {
		return fmt.Errorf("write the status of %s %s/%s: %w", kind, namespace, name, err)
	}
	return nil
}
