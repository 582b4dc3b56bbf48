package discovery

import (
	"maps"
	"slices"
	"sync"
)

// roster holds the feeds that should run. Any goroutine may change it.
type roster[U any] struct {
	mu      sync.Mutex
	feeds   map[string]*feedOf[U]
	changed chan struct{} // nil until the server runs
}

func (r *roster[U]) add(name string, source runner[U]) {
	r.change(func() { r.feeds[name] = &feedOf[U]{name, source} })
}

func (r *roster[U]) remove(name string) { r.change(func() { delete(r.feeds, name) }) }

func (r *roster[U]) change(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.feeds == nil {
		r.feeds = map[string]*feedOf[U]{}
	}
	change()
	select {
	case r.changed <- struct{}{}: // a send to a nil channel is not ready
	default:
	}
}

// begin adds the sources that the server starts with, except under names that were added before. It returns the channel
// that gets a value when the roster has changed, and one at the start.
func begin[U any, S runner[U]](r *roster[U], sources map[string]S) <-chan struct{} {
	changed := make(chan struct{}, 1)
	r.mu.Lock()
	r.changed = changed
	r.mu.Unlock()
	r.change(func() {
		for name, source := range sources {
			if r.feeds[name] == nil {
				r.feeds[name] = &feedOf[U]{name, source}
			}
		}
	})
	return changed
}

// all returns the feeds by name, as a copy.
func (r *roster[U]) all() map[string]*feedOf[U] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.feeds)
}

// compare returns the feeds to start and those to stop so that the feeds of a roster run, and no others. Both are
// ordered by name. A feed that is replaced is among both.
func compare[U any, C interface{ current() *feedOf[U] }](sources map[string]C, roster map[string]*feedOf[U]) (start, stop []*feedOf[U]) {
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if now := sources[name].current(); now != nil && now != roster[name] {
			stop = append(stop, now)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(roster)) {
		if c, has := sources[name]; !has || c.current() != roster[name] {
			start = append(start, roster[name])
		}
	}
	return start, stop
}
