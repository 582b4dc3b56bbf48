package source

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Secrets reads the Secrets that Ingresses name. Both methods are called by one goroutine.
type Secrets interface {
	Want([]ingress.Name)
	// Known returns the faults of the Secrets that were read, "" for none. After a change of it Source.Wake must be
	// called.
	Known() map[ingress.Name]string
}

// Source sends the groups of an ingress.Table. It implements discovery.Source.
type Source struct {
	secrets Secrets
	wake    chan struct{}

	mu    sync.Mutex
	table *ingress.Table
	feeds map[string]*Feed
}

// Feed receives the objects of one store. Any goroutine may use it.
type Feed struct {
	source *Source
	name   string
	synced bool
	served func(map[ingress.Name]bool)
}

// New returns a Source without stores.
func New(o ingress.Options, secrets Secrets) *Source {
	return &Source{secrets: secrets, wake: make(chan struct{}, 1), table: ingress.New(o), feeds: map[string]*Feed{}}
}

// Feed returns the Feed of a store, by the name of its source. The Source syncs when all its stores have.
func (s *Source) Feed(name string) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.feeds[name] == nil {
		s.feeds[name] = &Feed{source: s, name: name}
	}
	return s.feeds[name]
}

// Remove removes a store with its objects.
func (s *Source) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.feeds, name)
	s.table.Store(name).Clear()
	s.Wake()
}

// Wake makes the Source look at the Secrets again. Any goroutine may call it.
func (s *Source) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Apply changes the objects of the store; all changes of one call are served together. After Remove it does nothing.
func (f *Feed) Apply(do func(*ingress.Store)) {
	f.source.mu.Lock()
	defer f.source.mu.Unlock()
	if f.source.feeds[f.name] != f { // it was removed while its source read
		return
	}
	do(f.source.table.Store(f.name))
	f.source.Wake()
}

// Synced reports that the store has all objects that existed at its start.
func (f *Feed) Synced() {
	f.source.mu.Lock()
	defer f.source.mu.Unlock()
	f.synced = true
	f.source.Wake()
}

// Served sets a function that is called with the Ingresses of the store that are served, after each change of them. It
// must be set before Run.
func (f *Feed) Served(do func(map[ingress.Name]bool)) { f.served = do }

// Run sends updates until ctx is done. It syncs when all stores have, and the Secrets that Ingresses name were read:
// otherwise proxies would lose hosts of TLS at the start. The objects of the stores that have synced are sent before
// that, so that a store that is away does not keep those of another one.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	s.mu.Lock()
	unsent, synced, ready := s.table.All(), false, false
	s.mu.Unlock()
	s.Wake()
	for {
		var out chan<- model.Update
		if len(unsent) > 0 || ready && !synced {
			out = updates
		}
		select {
		case <-s.wake:
			changes, complete := s.changes()
			maps.Copy(unsent, changes)
			ready = ready || complete
		case out <- model.Update{Groups: unsent, Synced: ready}:
			unsent, synced = map[string]model.Group{}, ready
		case <-ctx.Done():
			return nil
		}
	}
}

// changes returns the groups that have changed, and whether all stores have synced and all wanted Secrets were read.
func (s *Source) changes() (out map[string]model.Group, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.secrets.Known()
	s.table.SetSecrets(known)
	out = s.table.Changes()
	wanted := s.table.Wanted()
	s.secrets.Want(wanted)
	complete = !slices.ContainsFunc(wanted, func(n ingress.Name) bool { _, looked := known[n]; return !looked })
	for name, f := range s.feeds {
		complete = complete && f.synced
		if f.served != nil {
			f.served(s.table.Ours(name))
		}
	}
	return out, complete
}
