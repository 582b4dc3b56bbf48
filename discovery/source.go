package discovery

import (
	"context"
	"maps"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Source sends groups of services and objects, and then changes, until ctx is done. After an error the server starts it
// again, and it sends everything again. A Source that returns nil has nothing more to send.
// discovery/registry/README.md describes how to write one.
type Source interface {
	Run(ctx context.Context, updates chan<- model.Update) error
}

// OnlySources is a Source that adds other sources and sends only faults. It adds those that exist at its start before
// it syncs. The sync of such a source alone is not enough for the first mesh.
type OnlySources interface {
	Source
	OnlySources()
}

// feedOf is a source under a name. A source that is added again is another feed, so that updates of the old one can be
// told apart.
type feedOf[S any] struct {
	name   string
	source S
}

type (
	feed       = feedOf[Source]
	secretFeed = feedOf[secret.Source]
)

// roster holds the feeds that should run. Any goroutine may change it.
type roster[S any] struct {
	mu      sync.Mutex
	feeds   map[string]*feedOf[S]
	changed chan struct{} // nil until the server runs
}

func (r *roster[S]) add(name string, source S) {
	r.change(func() { r.feeds[name] = &feedOf[S]{name, source} })
}

func (r *roster[S]) remove(name string) { r.change(func() { delete(r.feeds, name) }) }

func (r *roster[S]) change(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.feeds == nil {
		r.feeds = map[string]*feedOf[S]{}
	}
	change()
	select {
	case r.changed <- struct{}{}: // a send to a nil channel is not ready
	default:
	}
}

// begin adds the sources that the server starts with, except under names that were added before. It returns the channel
// that gets a value when the roster has changed, and one at the start.
func (r *roster[S]) begin(sources map[string]S) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.feeds == nil {
		r.feeds = map[string]*feedOf[S]{}
	}
	for name, source := range sources {
		if r.feeds[name] == nil {
			r.feeds[name] = &feedOf[S]{name, source}
		}
	}
	r.changed = make(chan struct{}, 1)
	r.changed <- struct{}{}
	return r.changed
}

// all returns the feeds by name, as a copy.
func (r *roster[S]) all() map[string]*feedOf[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.feeds)
}
