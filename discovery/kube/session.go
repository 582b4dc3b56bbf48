package kube

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/internal/retry"
)

// Session is the use of one connection to an API server: watches that follow objects. One goroutine uses it.
type Session struct {
	Client *Client

	events   <-chan Event
	follow   func(*Watch) (stop func())
	runs     map[*Watch]bool
	unlisted map[*Watch]bool
}

// backlog is the size of a channel of events.
const backlog = 1024

// NewSession returns a Session without a Client, for a test that plays the server: it gets the watches, and sends
// events.
func NewSession(events <-chan Event, follow func(*Watch) (stop func())) *Session {
	return &Session{events: events, follow: follow, runs: map[*Watch]bool{}, unlisted: map[*Watch]bool{}}
}

// Run connects and calls do with a Session. It ends when do or a watch has returned an error, when do has returned, or
// when ctx is done: then it waits for do and all watches, and closes the connections. The error is the first one.
func Run(ctx context.Context, connect func() (*Client, error), do func(context.Context, *Session) error) error {
	client, err := connect()
	if err != nil {
		return err
	}
	defer client.Close()
	g, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	events := make(chan Event, backlog)
	s := NewSession(events, func(w *Watch) func() {
		ctx, stop := context.WithCancel(ctx)
		g.Go(func() error { return client.Follow(ctx, w, events) })
		return stop
	})
	s.Client = client
	g.Go(func() error {
		defer end()
		return do(ctx, s)
	})
	return g.Wait()
}

// Start follows the objects of a watch until stop is called or the Session ends. After stop its events do not reach
// Apply.
func (s *Session) Start(w *Watch) (stop func()) {
	s.runs[w], s.unlisted[w] = true, true
	end := s.follow(w)
	return func() {
		end()
		delete(s.runs, w)
		delete(s.unlisted, w)
	}
}

// Listed reports whether each watch that runs has sent a list of all its objects, or that the server refuses them.
func (s *Session) Listed() bool { return len(s.unlisted) == 0 }

// Events returns the events of all watches. Each that is received must be passed to Apply.
func (s *Session) Events() <-chan Event { return s.events }

// Apply calls apply with an event and with all that wait behind it, so that the caller does its further work once for
// all of them.
func (s *Session) Apply(e Event, apply func(Event)) {
	for {
		if s.runs[e.Of] {
			if e.List || e.Refused != nil {
				delete(s.unlisted, e.Of)
			}
			apply(e)
		}
		select {
		case e = <-s.events:
		default:
			return
		}
	}
}

// Each calls apply with each event until ctx is done.
func (s *Session) Each(ctx context.Context, apply func(Event)) {
	for {
		select {
		case e := <-s.events:
			s.Apply(e, apply)
		case <-ctx.Done():
			return
		}
	}
}

// Namespaces returns the namespaces to watch, each once and in order: "", which is all of them, if none is given.
func Namespaces(given []string) []string {
	if len(given) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(given)))
}

// A Session that failed is begun again after firstPause, then twice as long each time, up to longPause.
const (
	firstPause = time.Second
	longPause  = 30 * time.Second
)

// Keep is Run until ctx is done: after an error it calls failed, waits, and begins again.
func Keep(ctx context.Context, connect func() (*Client, error), do func(context.Context, *Session) error, failed func(err error, again time.Duration)) {
	retry.Delays{First: firstPause, Last: longPause}.Do(ctx, func() error { return Run(ctx, connect, do) }, failed)
}

// Outbox makes updates of type U, which hold changed groups of type G by their keys, from the events of a Session.
type Outbox[G, U any] struct {
	Apply   func(Event)          // is called with each event
	Changes func() map[string]G  // returns the groups that changed since the last call; not called before everything is listed
	Update  func(map[string]G) U // makes an update
	Ready   func() bool          // reports whether the first update may be sent, once everything is listed; nil for yes
	Wake    <-chan struct{}      // another reason than events to ask for changes; nil for none
	Woken   func()               // is called with each value of Wake, before Changes; may be nil
}

// Send sends updates until ctx is done: the first when everything is listed, even if it is empty. Until an update is
// received, further changes are added to it.
func (o Outbox[G, U]) Send(ctx context.Context, s *Session, updates chan<- U) {
	unsent, first := map[string]G{}, true
	for {
		var out chan<- U
		if s.Listed() && (first && (o.Ready == nil || o.Ready()) || !first && len(unsent) > 0) {
			out = updates
		}
		select {
		case e := <-s.Events():
			s.Apply(e, o.Apply)
		case <-o.Wake:
			if o.Woken != nil {
				o.Woken()
			}
		case out <- o.Update(unsent):
			unsent, first = map[string]G{}, false
			continue
		case <-ctx.Done():
			return
		}
		if s.Listed() {
			maps.Copy(unsent, o.Changes())
		}
	}
}

// Objects returns the objects of type T in an event: those of a list, or the one that is new or has changed.
func Objects[T any](e Event) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, o := range e.All {
			if o, is := o.(T); is && !yield(o) {
				return
			}
		}
		if o, is := e.Put.(T); is {
			yield(o)
		}
	}
}

// Only returns the object of type T after an event of a watch of one object; the zero value if it does not exist.
func Only[T any](e Event) (found T) {
	for o := range Objects[T](e) {
		found = o
	}
	return found
}

// OneSecret returns a watch of one Secret.
func OneSecret(namespace, name string) *Watch {
	return &Watch{
		Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Object: &corev1.Secret{}, Namespace: namespace, Fields: "metadata.name=" + name,
	}
}

// FollowConfigMap calls apply with the content of a ConfigMap at the start and after each change, until ctx is done: nil
// if it does not exist.
func (s *Session) FollowConfigMap(ctx context.Context, namespace, name string, apply func(*corev1.ConfigMap)) {
	defer s.Start(&Watch{
		Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Object: &corev1.ConfigMap{}, Namespace: namespace, Fields: "metadata.name=" + name,
	})()
	s.Each(ctx, func(e Event) { apply(Only[*corev1.ConfigMap](e)) })
}
