package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// telling is a run of send, with the watches of a list of namespaces.
type telling struct {
	t       *testing.T
	watches []watched
	events  chan kube.Event
	updates chan model.Update
}

func startTelling(t *testing.T, namespaces ...string) *telling {
	ctx, cancel := context.WithCancel(t.Context())
	r := &telling{t, watches(namespaces, ""), make(chan kube.Event), make(chan model.Update)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		session := kube.NewSession(r.events, func(*kube.Watch) func() { return func() {} })
		Source{Options: catalog.Options{Cluster: "c1"}}.send(ctx, session, r.watches, r.updates)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// watch returns the watch of a kind and a namespace.
func (r *telling) watch(kind catalog.Kind, namespace string) *kube.Watch {
	r.t.Helper()
	i := slices.IndexFunc(r.watches, func(w watched) bool { return w.kind == kind && w.Namespace == namespace })
	if i < 0 {
		r.t.Fatalf("no watch of %s in %q", kind, namespace)
	}
	return &r.watches[i].Watch
}

func (r *telling) send(kind catalog.Kind, namespace string, e kube.Event) {
	r.t.Helper()
	e.Of = r.watch(kind, namespace)
	select {
	case r.events <- e:
	case <-time.After(30 * time.Second):
		r.t.Fatal("it takes no event")
	}
}

func (r *telling) update() model.Update {
	r.t.Helper()
	select {
	case u := <-r.updates:
		if !u.Synced {
			r.t.Error("an update is not synced")
		}
		return u
	case <-time.After(30 * time.Second):
		r.t.Fatal("it tells nothing")
		return model.Update{}
	}
}

// next returns the keys of the next update, with a minus before those of empty groups.
func (r *telling) next() (out []string) {
	r.t.Helper()
	u := r.update()
	for _, key := range slices.Sorted(maps.Keys(u.Groups)) {
		if u.Groups[key].Empty() {
			key = "-" + key
		}
		out = append(out, key)
	}
	return out
}

func (r *telling) want(keys ...string) {
	r.t.Helper()
	if got := r.next(); !slices.Equal(got, keys) {
		r.t.Errorf("it tells %q, want %q", got, keys)
	}
}

func service(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// Nothing is sent before there is a list of each kind. Changes that arrive while no update is received become one
// update.
func TestTell(t *testing.T) {
	r := startTelling(t)
	r.send(catalog.Service, "", kube.Event{List: true, All: []any{service("a", "one"), service("a", "two")}})
	r.send(catalog.EndpointSlice, "", kube.Event{List: true})
	r.send(catalog.Node, "", kube.Event{List: true})
	r.send(catalog.Namespace, "", kube.Event{List: true})
	select {
	case u := <-r.updates:
		t.Fatalf("it tells %v without a list of Pods", u)
	case <-time.After(50 * time.Millisecond):
	}
	r.send(catalog.Pod, "", kube.Event{List: true})
	r.want("Service/a/one", "Service/a/two")
	r.send(catalog.Service, "", kube.Event{Put: service("a", "three")})
	r.send(catalog.Service, "", kube.Event{Gone: service("a", "one")})
	r.send(catalog.Service, "", kube.Event{Put: service("a", "two")}) // as it was
	r.want("-Service/a/one", "Service/a/three")
	r.send(catalog.Service, "", kube.Event{List: true, All: []any{service("a", "three")}}) // a watch has expired
	r.want("-Service/a/two")
}

// If only some namespaces are read, each list is of one namespace.
func TestTellOfNamespaces(t *testing.T) {
	r := startTelling(t, "b", "a", "b")
	for _, kind := range []catalog.Kind{catalog.EndpointSlice, catalog.Pod} {
		r.send(kind, "a", kube.Event{List: true})
		r.send(kind, "b", kube.Event{List: true})
	}
	r.send(catalog.Node, "", kube.Event{List: true})
	r.send(catalog.Namespace, "", kube.Event{List: true})
	r.send(catalog.Service, "a", kube.Event{List: true, All: []any{service("a", "one")}})
	r.send(catalog.Service, "b", kube.Event{List: true, All: []any{service("b", "two")}})
	r.want("Service/a/one", "Service/b/two")
	r.send(catalog.Service, "b", kube.Event{List: true})
	r.want("-Service/b/two")
}

// Without the right to read Nodes or the system's Namespace everything else is sent, and the fault is reported until
// there is a list.
func TestTellWithoutNodes(t *testing.T) {
	r := startTelling(t)
	for _, kind := range []catalog.Kind{catalog.EndpointSlice, catalog.Pod} {
		r.send(kind, "", kube.Event{List: true})
	}
	r.send(catalog.Service, "", kube.Event{List: true, All: []any{service("a", "one")}})
	r.send(catalog.Node, "", kube.Event{Refused: errors.New("nodes is forbidden")})
	r.send(catalog.Namespace, "", kube.Event{Refused: errors.New("namespaces is forbidden")})
	u := r.update()
	if got := u.Groups["nodes"].Faults; len(got) != 1 || got[0] != "there is none of localities of Nodes: nodes is forbidden" {
		t.Errorf("the faults of nodes are %q", got)
	}
	if got := slices.Sorted(maps.Keys(u.Groups)); !slices.Equal(got, []string{"Service/a/one", "namespaces", "nodes"}) {
		t.Errorf("it tells %q", got)
	}
	r.send(catalog.Node, "", kube.Event{Refused: errors.New("nodes is forbidden")}) // again: nothing is new
	r.send(catalog.Service, "", kube.Event{Put: service("a", "two")})
	r.want("Service/a/two")
	r.send(catalog.Node, "", kube.Event{List: true})
	r.want("-nodes")
}

// Without the right to read Services, EndpointSlices or Pods that kind is a part that cannot be read: what was known of
// it stays, and the others are followed.
func TestTellWithoutAKind(t *testing.T) {
	r := startTelling(t)
	r.send(catalog.Node, "", kube.Event{List: true})
	r.send(catalog.Namespace, "", kube.Event{List: true})
	for _, kind := range []catalog.Kind{catalog.EndpointSlice, catalog.Pod} {
		r.send(kind, "", kube.Event{List: true})
	}
	r.send(catalog.Service, "", kube.Event{Refused: errors.New("services is forbidden")})
	u := r.update()
	if g := u.Groups["services"]; !g.Unread || !slices.Equal(g.Faults, []string{"services is forbidden"}) || !u.Synced {
		t.Errorf("it tells %+v", u)
	}
	r.send(catalog.Service, "", kube.Event{List: true, All: []any{service("a", "one")}})
	r.want("Service/a/one", "-services")
	r.send(catalog.Service, "", kube.Event{Refused: errors.New("services is forbidden")})
	r.want("services")
}

// A run that has not seen every kind sends nothing of the others: the endpoints of a Service would lose the labels of
// their Pods, and so their subsets.
func TestNothingIsMadeOfAPart(t *testing.T) {
	r := startTelling(t)
	for _, kind := range []catalog.Kind{catalog.Node, catalog.Namespace, catalog.EndpointSlice} {
		r.send(kind, "", kube.Event{List: true})
	}
	r.send(catalog.Service, "", kube.Event{List: true, All: []any{service("a", "one")}})
	r.send(catalog.Pod, "", kube.Event{Refused: errors.New("pods is forbidden")})
	u := r.update()
	if g := u.Groups["pods"]; !g.Unread || len(u.Groups) != 1 {
		t.Errorf("it tells %+v", u)
	}
	r.send(catalog.Service, "", kube.Event{Put: service("a", "two")})
	r.send(catalog.Pod, "", kube.Event{List: true})
	r.want("Service/a/one", "Service/a/two", "-pods")
	r.send(catalog.Pod, "", kube.Event{Refused: errors.New("pods is forbidden")})
	r.want("pods")
	r.send(catalog.Service, "", kube.Event{Put: service("a", "three")})
	r.want("Service/a/three") // it has seen the Pods
}

func TestStrip(t *testing.T) {
	meta := metav1.ObjectMeta{
		Name: "x", Labels: map[string]string{"app": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}, Finalizers: []string{"f"},
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "networking.istio.io/exportTo": "."},
	}
	pod := &corev1.Pod{
		ObjectMeta: *meta.DeepCopy(), Spec: corev1.PodSpec{NodeName: "n", ServiceAccountName: "s", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, ContainerStatuses: []corev1.ContainerStatus{{}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	owned := service("a", "x")
	owned.ObjectMeta = *meta.DeepCopy()
	node := &corev1.Node{ObjectMeta: *meta.DeepCopy(), Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: *meta.DeepCopy(), Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	before := catalogOf(owned, pod, node, slice)
	for _, o := range []any{pod, owned, node, slice, &corev1.Namespace{ObjectMeta: *meta.DeepCopy()}} {
		strip(o)
		if text := fmt.Sprintf("%+v", o); strings.Contains(text, "last-applied") || strings.Contains(text, "Finalizers:[f]") {
			t.Errorf("%T keeps %s", o, text)
		}
	}
	if len(pod.Spec.Containers) > 0 || len(pod.Status.ContainerStatuses) > 0 || len(pod.Status.Conditions) != 1 || len(node.Status.Images) > 0 {
		t.Errorf("left are %+v and %+v", pod, node)
	}
	after := catalogOf(owned, pod, node, slice)
	for key, group := range before {
		if !group.Same(after[key]) {
			t.Errorf("%s is %+v, and was %+v", key, after[key], group)
		}
	}
}

func catalogOf(objects ...any) map[string]model.Group {
	c := catalog.New(catalog.Options{})
	for _, o := range objects {
		c.Put(o, model.Origin{})
	}
	return c.Changes()
}

// A cluster that cannot be reached at all is reported.
func TestConnectFails(t *testing.T) {
	source := Source{Connect: func() (*kube.Client, error) { return nil, errors.New("no kubeconfig") }}
	if err := source.Run(t.Context(), nil); err == nil || err.Error() != "no kubeconfig" {
		t.Errorf("got %v", err)
	}
}
