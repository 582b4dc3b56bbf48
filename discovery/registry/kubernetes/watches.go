package kubernetes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
)

// watched is a Watch of objects of one kind.
type watched struct {
	kube.Watch
	kind    catalog.Kind
	without string // what is missing if the API server refuses these objects; "" if services or endpoints are
}

// retry is how long the watch of Services, EndpointSlices or Pods waits after a refusal.
const retry = 10 * time.Second

// watches returns the watches of the source.
func watches(namespaces []string, system string) []watched {
	core := corev1.SchemeGroupVersion
	out := []watched{
		{kube.Watch{Resource: core.WithResource("nodes"), Object: &corev1.Node{}, Strip: strip}, catalog.Node, "localities of Nodes"},
		{kube.Watch{
			Resource: core.WithResource("namespaces"), Object: &corev1.Namespace{}, Strip: strip,
			Fields: "metadata.name=" + cmp.Or(system, "istio-system"),
		}, catalog.Namespace, "the network of the cluster"},
	}
	for i := range out {
		out[i].Optional = true
	}
	for _, namespace := range kube.Namespaces(namespaces) {
		in := func(kind catalog.Kind, resource schema.GroupVersionResource, w kube.Watch) {
			w.Resource, w.Namespace, w.Strip, w.Optional, w.Retry = resource, namespace, strip, true, retry
			out = append(out, watched{w, kind, ""})
		}
		in(catalog.Service, core.WithResource("services"), kube.Watch{Object: &corev1.Service{}})
		in(catalog.EndpointSlice, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), kube.Watch{Object: &discoveryv1.EndpointSlice{}})
		in(catalog.Pod, core.WithResource("pods"), kube.Watch{
			Object: &corev1.Pod{}, Fields: "status.phase!=Succeeded,status.phase!=Failed", // finished Pods are never called
		})
	}
	return out
}

// strip removes the fields that the catalog does not read: of a Pod nearly everything.
func strip(o any) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
		m.SetOwnerReferences(nil)
		m.SetFinalizers(nil)
	}
	switch o := o.(type) {
	case *corev1.Service:
		maps.DeleteFunc(o.Annotations, func(key, _ string) bool { return !strings.Contains(key, "istio.io/") })
		o.Status = corev1.ServiceStatus{}
	case *discoveryv1.EndpointSlice:
		o.Annotations = nil
	case *corev1.Pod:
		o.Annotations = nil
		o.Spec = corev1.PodSpec{ServiceAccountName: o.Spec.ServiceAccountName, NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork}
		o.Status = corev1.PodStatus{
			Phase: o.Status.Phase, PodIP: o.Status.PodIP, PodIPs: o.Status.PodIPs,
			Conditions: slices.DeleteFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type != corev1.PodReady }),
		}
	case *corev1.Node:
		o.Annotations, o.Spec, o.Status = nil, corev1.NodeSpec{}, corev1.NodeStatus{}
	case *corev1.Namespace:
		o.Annotations = nil
	}
}
