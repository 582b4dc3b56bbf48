package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Watch is what to follow: the objects of a type.
type Watch struct {
	Resource  schema.GroupVersionResource
	Object    runtime.Object // an empty one of a type of core/v1, discovery/v1 or networking/v1; nil where Kind is set
	Kind      string         // of objects of any other type: they come as *unstructured.Unstructured
	Namespace string         // of all namespaces if empty
	Fields    string         // a selector, such as "metadata.name=x"; all if empty
	Labels    string         // a selector, such as "app=x"; all if empty
	Strip     func(any)      // takes away from an object what is not used; nil for nothing
}

// Event is one thing that happened to the objects of a Watch.
type Event struct {
	Of   *Watch
	Put  any   // an object that is new, or has changed
	Gone any   // the last form of one that was deleted
	List bool  // All is all that there is now
	All  []any // whatever is not among it is gone

	Refused error // in the place of a list: the server does not let this user read these objects (see FollowIfAllowed)
}

// Backlog is how many events may wait for the ones before them.
const Backlog = 1024

// Burst applies an event, and those that wait behind it: what follows an event is done once for all of them.
func Burst(e Event, events <-chan Event, apply func(Event)) {
	for {
		apply(e)
		select {
		case e = <-events:
		default:
			return
		}
	}
}

// Named returns the resource's name, such as "services".
func (w *Watch) Named() string { return w.Resource.GroupResource().String() }

// lister lists and watches, by client-go. A call is not repeated by it: it would hide for long that the server is away.
func (c *Client) lister(w *Watch) (cache.ListerWatcherWithContext, error) {
	version := w.Resource.GroupVersion()
	client, err := (*rest.RESTClient)(nil), error(nil)
	if w.Object != nil {
		client, err = c.typed(version)
	} else {
		client, err = c.untyped(version.WithKind(w.Kind))
	}
	if err != nil {
		return nil, err
	}
	request := func(o metav1.ListOptions) *rest.Request {
		o.FieldSelector, o.LabelSelector = w.Fields, w.Labels
		return client.Get().NamespaceIfScoped(w.Namespace, w.Namespace != "").Resource(w.Resource.Resource).
			VersionedParams(&o, metav1.ParameterCodec).MaxRetries(0)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return request(o).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return request(o).Watch(ctx)
		},
	}, nil
}

// store hands on what a reflector would keep.
type store struct {
	ctx    context.Context
	watch  *Watch
	events chan<- Event
}

func (s *store) send(e Event) error {
	e.Of = s.watch
	select {
	case s.events <- e:
	case <-s.ctx.Done():
	}
	return nil
}

func (s *store) strip(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok { // client-go takes it away
		u.SetGroupVersionKind(s.watch.Resource.GroupVersion().WithKind(s.watch.Kind))
	}
	if s.watch.Strip != nil {
		s.watch.Strip(o)
	}
	return o, nil
}

// Add, Update, Delete, Replace, Resync and Transformer are what a reflector asks of a store.
func (s *store) Add(o any) error {
	o, _ = s.strip(o)
	return s.send(Event{Put: o})
}

func (s *store) Update(o any) error { return s.Add(o) }
func (s *store) Delete(o any) error { return s.send(Event{Gone: o}) }

func (s *store) Replace(all []any, _ string) error {
	for _, o := range all {
		_, _ = s.strip(o)
	}
	return s.send(Event{List: true, All: all})
}

func (s *store) Resync() error                    { return nil }
func (s *store) Transformer() cache.TransformFunc { return s.strip }
