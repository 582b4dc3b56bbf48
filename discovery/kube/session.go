package kube

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
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
