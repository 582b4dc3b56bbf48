package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ApplyStatus writes a manager's fields into the status of an object by server-side apply: fields that the manager owns
// and that are not in status are removed, fields of other managers stay. A status of nil removes all of the manager's
// fields. The error is a conflict if the object has another resourceVersion than this, on which the status is based. The
// result is the new one.
func (c *Client) ApplyStatus(ctx context.Context, resource schema.GroupVersionResource, kind, namespace, name, version, manager string, status any) (string, error) {
	r, err := c.Resource(resource, namespace)
	if err != nil {
		return "", err
	}
	object := map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name, "resourceVersion": version},
	}
	if status != nil {
		object["status"] = status
	}
	var written struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := r.Apply(ctx, name, "status", manager, true, object, &written); err != nil {
		return "", fmt.Errorf("write the status of %s %s/%s: %w", kind, namespace, name, err)
	}
	return written.Metadata.ResourceVersion, nil
}
