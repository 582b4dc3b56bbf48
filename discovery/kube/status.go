package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ref names one version of an object of an API server.
type Ref struct {
	Resource        schema.GroupVersionResource
	Kind            string
	Namespace, Name string
	UID             string
	Generation      int64
}

func (r Ref) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// Condition is a condition in the status of an Istio object.
type Condition struct {
	Type string // used by discovery only: conditions of other types belong to other programs
	Said
	Details []Detail // in the list validationMessages
}

// Said is the content of a condition, without its type and times.
type Said struct {
	Status     string // True, False, Unknown
	Reason     string // CamelCase
	Message    string
	Generation int64 // of the object when the condition was computed
}

// Detail is one of the messages of a status. Istio's type has no field for a text.
type Detail struct{ Name, Level string } // ERROR, WARNING, INFO

const (
	manager = "pilotlight-discovery" // owns the fields that discovery writes
	owned   = "pilotlight/"          // prefix of the names of discovery's messages
)

// ErrOld is returned when an object was deleted, or has another UID or generation than the Ref. Nothing was written.
var ErrOld = errors.New("the object is gone, or has changed")

// SetCondition writes a condition into the status of an object, unless the status has it already. Conditions and
// messages of other programs stay. If the object changes meanwhile, the error is a conflict.
func (c *Client) SetCondition(ctx context.Context, of Ref, is Condition, now time.Time) error {
	r, err := c.Resource(of.Resource, of.Namespace)
	if err != nil {
		return err
	}
	found := &unstructured.Unstructured{}
	switch err := r.Get(ctx, of.Name, found); {
	case apierrors.IsNotFound(err):
		return ErrOld
	case err != nil:
		return err
	case string(found.GetUID()) != of.UID || found.GetGeneration() != of.Generation:
		return ErrOld
	}
	status, changed := withCondition(found.Object["status"], is, now)
	if !changed {
		return nil
	}
	err = r.Apply(ctx, of.Name, "status", manager, true, map[string]any{
		"apiVersion": of.Resource.GroupVersion().String(), "kind": of.Kind, "status": status,
		"metadata": map[string]any{"name": of.Name, "namespace": of.Namespace, "uid": of.UID, "resourceVersion": found.GetResourceVersion()},
	}, nil)
	if apierrors.IsNotFound(err) {
		return ErrOld
	}
	return err
}

// withCondition returns the part of a status to apply: all conditions and messages, since each list has one owner, with
// those of discovery replaced. changed is false where the status has the same content already.
func withCondition(status any, is Condition, now time.Time) (applied map[string]any, changed bool) {
	own := map[string]any{
		"type": is.Type, "status": is.Status, "reason": is.Reason, "message": is.Message, "observedGeneration": is.Generation,
		"lastTransitionTime": now.UTC().Format(time.RFC3339),
	}
	has, _ := status.(map[string]any)
	conditions, messages := []any{}, []any{}
	for _, c := range listOf(has, "conditions") {
		last, _ := c.(map[string]any)
		if last["type"] != is.Type {
			conditions = append(conditions, c)
		} else if last["status"] == is.Status && last["lastTransitionTime"] != nil {
			own["lastTransitionTime"] = last["lastTransitionTime"]
		}
	}
	var before []Detail
	for _, m := range listOf(has, "validationMessages") {
		if name, ours := strings.CutPrefix(textAt(m, "type", "name"), owned); ours {
			before = append(before, Detail{name, textAt(m, "level")})
		} else {
			messages = append(messages, m)
		}
	}
	for _, d := range is.Details {
		messages = append(messages, map[string]any{"type": map[string]any{"name": owned + d.Name}, "level": d.Level})
	}
	applied = map[string]any{"conditions": append(conditions, own)}
	if len(messages) > 0 {
		applied["validationMessages"] = messages
	}
	last := SaidOf(has, is.Type)
	return applied, last == nil || *last != is.Said || !slices.Equal(before, is.Details)
}

// SaidOf returns the content of the condition of a type in a status, or nil if there is none.
func SaidOf(status map[string]any, conditionType string) *Said {
	for _, c := range listOf(status, "conditions") {
		if textAt(c, "type") != conditionType {
			continue
		}
		out := &Said{Status: textAt(c, "status"), Reason: textAt(c, "reason"), Message: textAt(c, "message")}
		fields, _ := c.(map[string]any)
		switch n := fields["observedGeneration"].(type) {
		case int64:
			out.Generation = n
		case string: // as protobuf writes it
			out.Generation, _ = strconv.ParseInt(n, 10, 64)
		}
		return out
	}
	return nil
}

func listOf(fields map[string]any, name string) []any {
	out, _ := fields[name].([]any)
	return out
}

// textAt returns the text at a path of an object, "" where there is none.
func textAt(o any, path ...string) string {
	for _, name := range path {
		fields, _ := o.(map[string]any)
		o = fields[name]
	}
	out, _ := o.(string)
	return out
}

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
