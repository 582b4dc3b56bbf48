package kube

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Watch selects the objects of a type for Follow.
type Watch struct {
	Resource  schema.GroupVersionResource
	Object    runtime.Object // an empty one of a type of core/v1, discovery/v1 or networking/v1; nil where Kind is set
	Kind      string         // of objects of any other type: they come as *unstructured.Unstructured
	Namespace string         // of all namespaces if empty
	Fields    string         // a selector, such as "metadata.name=x"; all if empty
	Labels    string         // a selector, such as "app=x"; all if empty
	Strip     func(any)      // removes unused fields from an object; may be nil

	// Optional is for objects without which the others of the Session are still followed: if the server refuses them (403),
	// or cannot convert them to the version that is read, Follow sends an Event with Refused, and tries again after
	// Retry, Again if that is 0. Awaited is for a kind that the server may not serve yet, or no longer (404): Follow waits for it.
	Optional, Awaited bool
	Retry             time.Duration
}

// Event is a change of one object of a Watch, or a list of all its objects.
type Event struct {
	Of   *Watch
	Put  any   // an object that is new, or has changed
	Gone any   // the last form of one that was deleted
	List bool  // All holds all objects
	All  []any // an object that is not among these was deleted

	Refused error // instead of a list: the server does not give these objects alone (see Watch.Optional)
}

// Named returns the resource's name, such as "services".
func (w *Watch) Named() string { return w.Resource.GroupResource().String() }

// lister lists and watches with client-go. client-go does not repeat a request here: this would hide for long that the
// server is away.
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

// store is the store of a reflector. It sends objects as Events and does not keep them.
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
	if u, ok := o.(*unstructured.Unstructured); ok { // client-go removes it
		u.SetGroupVersionKind(s.watch.Resource.GroupVersion().WithKind(s.watch.Kind))
	}
	if s.watch.Strip != nil {
		s.watch.Strip(o)
	}
	return o, nil
}

// Add, Update, Delete, Replace, Resync and Transformer are the methods of a store that a reflector needs.
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
