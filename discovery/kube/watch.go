package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
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

// Limits of time for a server that does not answer.
const (
	// Patience is how long Follow continues without an answer of a server that has answered before: another replica of
	// it may answer, or it restarts.
	Patience = 5 * time.Second

	listTimeout = time.Minute            // of one list
	between     = time.Second            // the least between two lists
	pause       = 400 * time.Millisecond // the longest between two attempts: client-go sleeps for all of it, even when it is stopped
)

// Again is how long Follow waits after a refusal of optional objects before it tries again, and absence how long where
// the server does not serve their kind.
const (
	Again   = time.Minute
	absence = time.Second
)

// Follow sends all objects of a Watch, and then each object that changes, until ctx is done. It returns an error when
// the server does not answer or refuses: after Patience if only the connection of a server is lost that has answered
// before, else at once. A Watch may ask for another attempt instead (see Watch); this starts with a list.
func (c *Client) Follow(ctx context.Context, w *Watch, events chan<- Event) error {
	for {
		err := c.follow(ctx, w, events)
		wait := absence
		switch {
		case ctx.Err() != nil:
			return nil
		case w.Optional && ofKind(err):
			select {
			case events <- Event{Of: w, Refused: err}:
			case <-ctx.Done():
				return nil
			}
			wait = cmp.Or(w.Retry, Again)
		case w.Awaited && apierrors.IsNotFound(err):
		default:
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// ofKind reports whether an error is of one kind of object: the server does not allow to read it, or the webhook of its
// definition does not convert it. An API server that is away or broken answers in another way.
func ofKind(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "conversion webhook")
}

// follow is one attempt of Follow.
func (c *Client) follow(ctx context.Context, w *Watch, events chan<- Event) error {
	s := &store{ctx: ctx, watch: w, events: events}
	lister, err := c.lister(w)
	if err != nil {
		return err
	}
	l := &line{ListerWatcherWithContext: lister}
	var object any
	if w.Object != nil {
		object = w.Object
	}
	reflector := cache.NewReflectorWithOptions(l, object, s, cache.ReflectorOptions{
		Name: w.Named(), TypeDescription: w.Named(), Backoff: &wait.Backoff{Duration: pause / 4, Factor: 2, Steps: 3, Cap: pause},
	})
	for {
		began := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && l.spent() {
			return fmt.Errorf("follow %s: %w", w.Named(), err)
		}
		select {
		case <-time.After(between - time.Since(began)):
		case <-ctx.Done():
			return nil
		}
	}
}

// line is the connection to the server, with the time since which its requests fail.
type line struct {
	cache.ListerWatcherWithContext

	mu    sync.Mutex
	known bool      // the server has answered
	bad   time.Time // zero while it answers
}

// note records the outcome of a request.
func (l *line) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.known, l.bad = true, time.Time{}
	case l.bad.IsZero():
		l.bad = time.Now()
	}
}

// spent reports whether requests have failed for Patience; for a server that has never answered, whether the last
// request failed.
func (l *line) spent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.bad.IsZero() && (!l.known || time.Since(l.bad) >= Patience)
}

// ListWithContext lists objects. After a refusal (401, 403, 404) spent returns true at once: it is not an outage.
func (l *line) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	out, err := l.ListerWatcherWithContext.ListWithContext(ctx, o)
	l.note(err)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
		l.mu.Lock()
		l.known = false
		l.mu.Unlock()
	}
	return out, err
}

// WatchWithContext starts a watch. A reflector repeats the attempt for ever when the error is a refused connection or
// an overloaded server (429). So when spent returns true, the error is replaced by one without this type, and the
// reflector returns it.
func (l *line) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	out, err := l.ListerWatcherWithContext.WatchWithContext(ctx, o)
	if err == nil && reflect.TypeOf(out) == reflect.TypeOf(watch.NewEmptyWatch()) { // in the place of an error
		out, err = nil, errors.New("the connection was closed")
	}
	if l.note(err); err != nil && l.spent() {
		err = errors.New(err.Error())
	}
	return out, err
}

// List and Watch are the older forms of a ListerWatcher.
func (l *line) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

func (l *line) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}
