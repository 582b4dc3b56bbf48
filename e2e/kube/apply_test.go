//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// hand writes objects as an administrator does with kubectl.
type hand struct {
	t      testing.TB
	client dynamic.Interface
}

func (c *cluster) hand() hand {
	c.t.Helper()
	client, err := dynamic.NewForConfig(c.config("admin"))
	check(c.t, err)
	return hand{c.t, client}
}

// resources are the kinds whose plural is not the kind with an s.
var resources = map[string]string{
	"NetworkPolicy": "networkpolicies", "ValidatingAdmissionPolicy": "validatingadmissionpolicies", "AuthorizationPolicy": "authorizationpolicies",
	"Telemetry": "telemetries", "Gateway": "gateways", "ServiceEntry": "serviceentries",
	"Ingress": "ingresses", "IngressClass": "ingressclasses",
}

func (h hand) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := o.GroupVersionKind()
	plural := strings.ToLower(gvk.Kind) + "s"
	if other := resources[gvk.Kind]; other != "" {
		plural = other
	}
	r := h.client.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: plural})
	if o.GetNamespace() == "" {
		return r
	}
	return r.Namespace(o.GetNamespace())
}

func (h hand) parse(document string) *unstructured.Unstructured {
	h.t.Helper()
	o := &unstructured.Unstructured{}
	check(h.t, yaml.Unmarshal([]byte(document), &o.Object))
	return o
}

// apply writes YAML documents by server-side apply; a status of a Pod by its subresource. It repeats what the API server is
// not there for yet, and returns when definitions and roles are in force: see inForce.
func (h hand) apply(documents string) {
	h.t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(documents, "\n---\n") {
		if strings.TrimSpace(document) != "" {
			objects = append(objects, h.parse(document))
		}
	}
	before := h.stored(objects)
	for _, o := range objects {
		check(h.t, h.try(func(ctx context.Context) error {
			_, err := h.resource(o).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
			return err
		}))
		if _, has := o.Object["status"]; has && o.GetKind() == "Pod" {
			check(h.t, h.try(func(ctx context.Context) error {
				_, err := h.resource(o).ApplyStatus(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
				return err
			}))
		}
	}
	h.inForce(objects, before)
}

// delete deletes what YAML documents name, at once.
func (h hand) delete(documents string) {
	h.t.Helper()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		o := h.parse(document)
		check(h.t, h.try(func(ctx context.Context) error {
			now := int64(0)
			err := h.resource(o).Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}))
	}
}

// try repeats what fails, unless the API server has judged the object.
func (h hand) try(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := do(ctx)
		var judged apierrors.APIStatus
		if err == nil || errors.As(err, &judged) && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, for half a minute", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
