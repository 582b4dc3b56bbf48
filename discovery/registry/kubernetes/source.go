package kubernetes

import (
	"cmp"
	"context"
	"fmt"
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
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Source sends the services and workloads of a cluster.
type Source struct {
	Connect    func() (*kube.Client, error) // called by each Run, which closes the client's connections at its end
	Namespaces []string                     // of the Services, EndpointSlices and Pods that are read; empty for all
	Options    catalog.Options
}

// Run sends updates until ctx is done, or the API server cannot be reached. Of a kind that it refuses the last objects
// stay, and the others are followed; but a run sends nothing before each kind of which services and workloads are made
// was listed once: endpoints without the labels of their Pods would leave their subsets. An API server that has just started
// refuses everything for a moment. Run keeps nothing between two runs.
func (s Source) Run(ctx context.Context, updates chan<- model.Update) error {
	return kube.Run(ctx, s.Connect, func(ctx context.Context, session *kube.Session) error {
		s.send(ctx, session, watches(s.Namespaces, s.Options.SystemNamespace), updates)
		return nil
	})
}

// send follows the watches until ctx is done, and sends changes.
func (s Source) send(ctx context.Context, session *kube.Session, watches []watched, updates chan<- model.Update) {
	known := catalog.New(s.Options)
	of, unlisted := map[*kube.Watch]watched{}, map[*kube.Watch]bool{}
	for i := range watches {
		of[&watches[i].Watch] = watches[i]
		if watches[i].without == "" {
			unlisted[&watches[i].Watch] = true
		}
		session.Start(&watches[i].Watch)
	}
	refused, faults := map[*kube.Watch]model.Group{}, map[string]model.Group{}
	kube.Outbox[model.Group, model.Update]{
		Apply: func(e kube.Event) {
			if fault := refusal(e, of[e.Of].without); (e.List || e.Refused != nil) && !slices.Equal(fault.Faults, refused[e.Of].Faults) {
				refused[e.Of], faults[key(e.Of)] = fault, fault
			}
			if e.List {
				delete(unlisted, e.Of)
			}
			apply(known, e, of[e.Of].kind, s.Options.Cluster)
		},
		Changes: func() map[string]model.Group {
			out := map[string]model.Group{}
			if len(unlisted) == 0 {
				out = known.Changes()
			}
			maps.Copy(out, faults)
			clear(faults)
			return out
		},
		Update: func(changed map[string]model.Group) model.Update { return model.Update{Groups: changed, Synced: true} },
	}.Send(ctx, session, updates)
}

// refusal returns a group that names what is missing while the API server refuses some objects; an empty one while it
// refuses none.
func refusal(e kube.Event, without string) model.Group {
	switch {
	case e.Refused == nil:
		return model.Group{}
	case without == "":
		return model.Group{Faults: []string{e.Refused.Error()}, Unread: true}
	default:
		return model.Group{Faults: []string{fmt.Sprintf("there is none of %s: %v", without, e.Refused)}}
	}
}

// key is the key of the fault of a watch.
func key(w *kube.Watch) string { return strings.TrimSuffix(w.Named()+" of "+w.Namespace, " of ") }

// apply applies one event. Objects that are refused now stay in their last form.
func apply(known *catalog.Catalog, e kube.Event, kind catalog.Kind, cluster string) {
	put := func(o any) {
		if m, ok := o.(metav1.Object); ok {
			known.Put(o, catalog.Record(cluster, m))
		}
	}
	switch {
	case e.Refused != nil:
	case e.List:
		listed := make(map[catalog.Key]bool, len(e.All))
		for _, o := range e.All {
			put(o)
			key, _ := catalog.KeyOf(o)
			listed[key] = true
		}
		known.Keep(kind, func(key catalog.Key) bool {
			return listed[key] || e.Of.Namespace != "" && key.Namespace != e.Of.Namespace
		})
	case e.Put != nil:
		put(e.Put)
	default:
		if key, ok := catalog.KeyOf(e.Gone); ok {
			known.Delete(key)
		}
	}
}

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
