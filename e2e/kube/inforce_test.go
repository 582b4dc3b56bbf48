//go:build kube

package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// grant is one right that a role gives: a verb on a resource, for one name or for all, in one namespace or in all.
type grant struct{ namespace, group, resource, name, verb string }

// String writes it as "verb resource.group name in namespace".
func (g grant) String() string {
	out := strings.TrimSuffix(g.verb+" "+g.resource+"."+g.group, ".")
	if g.name != "" {
		out += " " + g.name
	}
	if g.namespace != "" {
		out += " in " + g.namespace
	}
	return out
}

// grants are those of a Role or ClusterRole.
func grants(t testing.TB, o *unstructured.Unstructured) map[grant]bool {
	t.Helper()
	var role rbacv1.Role // a ClusterRole has the same rules
	check(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
	out := map[grant]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range append(slices.Clone(rule.ResourceNames), "")[:max(1, len(rule.ResourceNames))] {
					out[grant{o.GetNamespace(), rule.APIGroups[0], resource, name, verb}] = true
				}
			}
		}
	}
	return out
}

// roles are the grants of the roles among objects, by kind, namespace and name.
func roles(t testing.TB, objects []*unstructured.Unstructured) map[string]map[grant]bool {
	t.Helper()
	out := map[string]map[grant]bool{}
	for _, o := range objects {
		if o.GetKind() == "Role" || o.GetKind() == "ClusterRole" {
			out[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = grants(t, o)
		}
	}
	return out
}

// stored are the roles among objects as the API server has them.
func (h hand) stored(objects []*unstructured.Unstructured) (out []*unstructured.Unstructured) {
	h.t.Helper()
	for _, o := range objects {
		if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
			continue
		}
		check(h.t, h.try(func(ctx context.Context) error {
			found, err := h.resource(o).Get(ctx, o.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err == nil {
				out = append(out, found)
			}
			return err
		}))
	}
	return out
}

// inForce waits until objects that were written have their effect. The API server answers a write before the caches of its
// authorizer and of its handler of custom resources have the object. before are the roles among them as they were: a right
// that one no longer gives is refused when inForce returns.
//
// Webhooks and policies are in force when a dry run shows their effect, which depends on the test: it waits for that itself.
func (h hand) inForce(objects, before []*unstructured.Unstructured) {
	h.t.Helper()
	old, now := roles(h.t, before), roles(h.t, objects)
	for _, o := range objects {
		switch o.GetKind() {
		case "CustomResourceDefinition":
			h.served(o)
		case "RoleBinding", "ClusterRoleBinding":
			var binding rbacv1.RoleBinding
			check(h.t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding))
			role := binding.RoleRef.Kind + " " + o.GetNamespace() + "/" + binding.RoleRef.Name
			for _, s := range binding.Subjects {
				h.authorized(s, old[role], now[role])
			}
		}
	}
}

// served waits until the objects of a definition can be listed.
func (h hand) served(definition *unstructured.Unstructured) {
	h.t.Helper()
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)["name"].(string)
		check(h.t, lab.Eventually(stopLimit, func() error {
			r := h.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
			_, err := r.List(h.t.Context(), metav1.ListOptions{Limit: 1})
			return err
		}))
	}
}

// authorized waits until a subject has the rights of its role, and none of those that the role gave only before.
func (h hand) authorized(s rbacv1.Subject, before, now map[grant]bool) {
	h.t.Helper()
	user := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		user = "system:serviceaccount:" + s.Namespace + ":" + s.Name
	}
	all := maps.Clone(now)
	for g := range before {
		all[g] = now[g]
	}
	for g, want := range all {
		check(h.t, lab.Eventually(stopLimit, func() error {
			has, err := h.allowed(user, g)
			if err == nil && has != want {
				err = fmt.Errorf("that %s may %s is %t, want %t", user, g, has, want)
			}
			return err
		}))
	}
}

// allowed asks the API server's authorizer.
func (h hand) allowed(user string, g grant) (bool, error) {
	resource, subresource, _ := strings.Cut(g.resource, "/")
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{"user": user, "resourceAttributes": map[string]any{
			"namespace": g.namespace, "verb": g.verb, "name": g.name,
			"group": g.group, "resource": resource, "subresource": subresource,
		}},
	}}
	answer, err := h.resource(o).Create(h.t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}
