package discovery

import (
	"context"
	"maps"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Source sends groups of services and objects, and then what changes, until ctx is done. After an error the server starts
// it again, and it sends everything again. A Source that returns nil has nothing more to send.
// discovery/registry/README.md says how to write one.
type Source interface {
	Run(ctx context.Context, updates chan<- model.Update) error
}

// feed is a Source under a name. A source that is added again is another feed: updates of the old one are known by it.
type feed struct {
	name   string
	source Source
}

// roster holds the feeds that should run. Any goroutine may change it.
type roster struct {
	mu      sync.Mutex
	feeds   map[string]*feed
	changed chan struct{} // nil until the server runs
}

func (r *roster) set(name string, source Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.feeds == nil {
		r.feeds = map[string]*feed{}
	}
	if delete(r.feeds, name); source != nil {
		r.feeds[name] = &feed{name, source}
	}
	select {
	case r.changed <- struct{}{}: // a send to a nil channel is not ready
	default:
	}
}

// begin adds the sources that the server starts with, except under names that were added before. It returns the channel
// that gets a value when the roster has changed, and one at the start.
func (r *roster) begin(sources map[string]Source) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.feeds == nil {
		r.feeds = map[string]*feed{}
	}
	for name, source := range sources {
		if r.feeds[name] == nil {
			r.feeds[name] = &feed{name, source}
		}
	}
	r.changed = make(chan struct{}, 1)
	r.changed <- struct{}{}
	return r.changed
}

// all returns the feeds by name, as a copy.
func (r *roster) all() map[string]*feed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.feeds)
}
