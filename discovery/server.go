package discovery

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Pusher sends each new mesh to the proxies. One goroutine at a time uses it.
type Pusher interface {
	Push(*model.Mesh, model.Change)
	// Took returns how long the last push took, until every proxy was offered it; if it is not over, how long it has taken
	// so far.
	Took() time.Duration
}

// Judge looks for mistakes in each new mesh. It returns at once, and changes nothing.
type Judge interface {
	Judge(*model.Mesh)
}

// Debounce sets when changes are pushed: the first at once, and later ones together.
type Debounce struct {
	After time.Duration // between the end of a push and the next one, at least; longer where pushes take long
	Max   time.Duration // the longest that a change waits for that pause
}

// Patience sets how long the server waits.
type Patience struct {
	Sync time.Duration // for a source to sync, before discovery continues without it; 0 for ever
	Wipe time.Duration // how long more than half of all hosts are kept, if a removed or restarted source loses them at once; 0 for not at all
	// Recall is how long proxies that come back keep what they have, though a source is late that may have had it; 0 for ever.
	Recall time.Duration
	// Linger is how long a service of a registry is served after its source has removed it, since it may come back at
	// once, unless another service has its host or its address; 0 for not at all.
	Linger time.Duration
}

// deadline returns when a source that was added at now is late; zero for never.
func (p Patience) deadline(now time.Time) time.Time {
	if p.Sync <= 0 {
		return time.Time{}
	}
	return now.Add(p.Sync)
}

// Server joins sources and a pusher.
type Server struct {
	Sources map[string]Source // that it starts with, by their name in logs and state
	Mesh    model.Settings    // what is the same in every generation of it: the domain of its services, LoopbackEndpoints
	Pusher  Pusher
	Judge   Judge // nil for none
	// Preview is told all groups when the first mesh waits for no source any more. If it adds sources, the mesh waits for them too.
	// Nil for none.
	Preview  func(groups iter.Seq[model.Group])
	Debounce Debounce
	Patience Patience
	// Required reports whether there is no mesh before a source of that name is whole; nil for no such source. The others
	// are optional: after their deadline the server goes on without them.
	Required func(source string) bool
	// Secrets are sources of secrets that it starts with, by name; Vault receives what they send. The first mesh waits
	// for them as for the other sources.
	Secrets map[string]secret.Source
	Vault   Vault // may be nil where there are never sources of secrets
	Log     *slog.Logger

	// Remembered are the groups of sources that an earlier run has kept, by the source's name. They are served as if each
	// source had run before and failed: until it is whole.
	Remembered map[string]Remembered
	// Adder returns the source that adds a source of that name while the server runs, "" for none: what is remembered of
	// one that has not been added yet is served until its adder is whole. Nil for no such sources.
	Adder  func(source string) string
	Keeper Keeper // gets what is served of each source; nil for none

	LastGood LastGood // nil for none

	roster   roster[model.Update]
	released released
	readers  readers
	random   func() float64 // for a test to set
	synced   atomic.Bool
	statuses atomic.Pointer[[]SourceStatus]

	secretRoster   roster[secret.Update]
	secretStatuses atomic.Pointer[[]SourceStatus]
}

// Synced reports whether a mesh was pushed: before that a proxy gets nothing.
func (s *Server) Synced() bool { return s.synced.Load() }

// Add starts a source, or replaces the one of that name, whose groups are served until the new one has synced.
// Any goroutine may call it, before Run or while it runs.
func (s *Server) Add(name string, source Source) { s.roster.add(name, source) }

// Remove stops a source and removes its groups: at once, unless they are most of the mesh (see Patience).
func (s *Server) Remove(name string) { s.roster.remove(name) }

// AddSecrets starts a source of secrets, or replaces the one of that name, whose secrets are served until the new one has
// synced. Any goroutine may call it, before Run or while it runs.
func (s *Server) AddSecrets(name string, source secret.Source) { s.secretRoster.add(name, source) }

// RemoveSecrets stops a source of secrets and removes its secrets. Proxies keep the secrets that they have.
func (s *Server) RemoveSecrets(name string) { s.secretRoster.remove(name) }

// Statuses returns the status of each source, ordered by name; those of secrets come last.
func (s *Server) Statuses() (out []SourceStatus) {
	if now := s.statuses.Load(); now != nil {
		out = slices.Clone(*now)
	}
	for name, f := range s.roster.all() {
		holder, holds := f.source.(Holder)
		i := slices.IndexFunc(out, func(now SourceStatus) bool { return now.Name == name })
		if !holds || i < 0 {
			continue
		}
		if lost, groups, since, until := holder.Held(); groups > 0 {
			out[i].hold(lost, groups, since, until)
		}
	}
	if now := s.secretStatuses.Load(); now != nil {
		out = append(out, *now...)
	}
	return out
}

// Run pushes a mesh for each burst of changes until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	if s.random == nil {
		s.random = rand.Float64
	}
	var g errgroup.Group
	changed := begin(&s.roster, s.Sources)
	settled := make(chan struct{})
	if s.Vault != nil {
		changed := begin(&s.secretRoster, s.Secrets)
		g.Go(func() error { return s.runSecrets(ctx, changed, func() { close(settled) }) })
	} else {
		close(settled)
	}
	g.Go(func() error { return s.loop(ctx, changed, settled) })
	return g.Wait()
}

func (s *Server) loop(ctx context.Context, changed, settled <-chan struct{}) error {
	state := newState(s.Patience)
	state.settings, state.required = s.Mesh, s.Required
	state.withoutSecrets = true
	state.adder, state.keeps, state.lastGood = s.Adder, s.Keeper != nil, s.LastGood
	state.recall(s.Remembered, s.roster.all(), time.Now())
	running := newRunning[model.Update](s.random)
	reconcile := func() {
		start, stop := state.reconcile(s.roster.all(), time.Now())
		running.change(ctx, start, stop)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			err := running.end()
			s.keep(state, true)
			return err
		case <-changed:
			reconcile()
		case <-settled:
			state.withoutSecrets, settled = false, nil
		case event := <-running.events:
			reconcile() // a source that was added before the event counts before it
			state.apply(event, time.Now())
		case <-s.released.asked():
			for _, name := range s.released.take() {
				state.release(name, time.Now())
			}
		case answer := <-s.readers.all():
			state.answer(answer)
			continue // nothing has changed
		case <-timer.C:
			state.pushes.recordOffer(s.Pusher.Took())
			if !state.pushed && s.Preview != nil && state.complete() {
				s.Preview(state.groups())
				reconcile()
			}
			if due, ok := state.debounce(s.Debounce); ok && !due.After(time.Now()) {
				s.push(state)
			}
		}
		state.expire(time.Now())
		s.keep(state, false)
		s.report(state)
		if wake, ok := state.wake(s.Debounce); ok {
			timer.Reset(time.Until(wake))
		} else {
			timer.Stop()
		}
	}
}

// report logs the messages of the state, and publishes the status of each source.
func (s *Server) report(state *state) {
	state.journal.write(context.Background(), s.Log)
	statuses := make([]SourceStatus, 0, len(state.sources))
	for _, name := range slices.Sorted(maps.Keys(state.sources)) {
		statuses = append(statuses, state.report(name))
	}
	s.statuses.Store(&statuses)
}

// push pushes the mesh of all changes so far.
func (s *Server) push(state *state) {
	began := time.Now()
	mesh, change := state.flush(began)
	s.Pusher.Push(mesh, change)
	if s.Judge != nil {
		s.Judge.Judge(mesh)
	}
	s.synced.Store(true)
	s.Log.Info("pushed", "services", len(mesh.Services()), "changes", change.Count, "took", time.Since(change.Since))
	state.pushes.record(began, time.Now())
}

// keep hands over what is to be kept: with final all of it, for the server ends.
func (s *Server) keep(state *state, final bool) {
	if s.LastGood != nil {
		for name, forms := range state.forms() {
			s.LastGood.Keep(name, forms)
		}
	}
	gone := state.takeGone()
	if s.Keeper == nil {
		return
	}
	now := time.Now()
	for _, name := range state.toKeep(now, final) {
		s.Keeper.Keep(name, state.sources[name].toKeep(), now)
	}
	for _, name := range gone {
		s.Keeper.Forget(name)
	}
}

// Vault receives each new set of secrets. One goroutine at a time uses it.
type Vault interface {
	SetSecrets(secret.Set)
}

// runSecrets runs the sources of secrets until ctx is done, and gives the vault each new set. It calls settled once the
// first mesh waits for none of them, and the vault has their secrets.
func (s *Server) runSecrets(ctx context.Context, roster <-chan struct{}, settled func()) error {
	state := newSecretState(s.Patience)
	running := newRunning[secret.Update](s.random)
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	for waiting := true; ; {
		changed := false
		select {
		case <-ctx.Done():
			return running.end()
		case <-roster:
			var start, stop []*secretFeed
			start, stop, changed = state.reconcile(s.secretRoster.all(), time.Now())
			running.change(ctx, start, stop)
		case event := <-running.events:
			changed = state.apply(event, time.Now())
		case <-timer.C:
		}
		if next := state.expire(time.Now()); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		done := waiting && state.complete()
		if done && len(state.sources) > 0 || changed && !waiting {
			s.Vault.SetSecrets(state.unite())
		}
		state.write(ctx, s.Log)
		statuses := state.report()
		s.secretStatuses.Store(&statuses)
		if done {
			waiting = false
			settled()
		}
	}
}

// Groups returns the groups of which the next mesh would be made, in their order. Groups and what they hold are immutable. Any goroutine may
// call it while Run runs; it waits for what Run does now, such as a push.
func (s *Server) Groups(ctx context.Context) ([]model.Group, error) {
	answer := make(chan []model.Group, 1)
	select {
	case s.readers.all() <- answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case groups := <-answer:
		return groups, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readers ask for the groups. Its zero value has none.
type readers struct {
	once sync.Once
	ask  chan chan<- []model.Group
}

func (r *readers) all() chan chan<- []model.Group {
	r.once.Do(func() { r.ask = make(chan chan<- []model.Group) })
	return r.ask
}

func (s *state) answer(to chan<- []model.Group) { to <- slices.Collect(s.groups()) }

// Release ends the hold of a source's groups, which are gone at once: from now on its word counts. It returns their number, or an
// error if the source holds none. Of a source that is lacking it ends the wait of proxies. Any goroutine may call it.
func (s *Server) Release(source string) (groups int, err error) {
	statuses := s.Statuses()
	i := slices.IndexFunc(statuses, func(now SourceStatus) bool { return now.Name == source })
	switch {
	case i < 0:
		return 0, fmt.Errorf("source %.200q: no such source, want one of /debug/sources", source)
	case statuses[i].Held+statuses[i].Stranded == 0 && !statuses[i].Lacking:
		return 0, fmt.Errorf("source %q: it has no groups that are held, and no proxy waits for it", source)
	}
	if f := s.roster.all()[source]; f != nil {
		if holder, holds := f.source.(Holder); holds {
			holder.Release()
		}
	}
	s.released.add(source)
	return statuses[i].Held + statuses[i].Stranded, nil
}

// released are the names of sources that are to be released. Its zero value has none.
type released struct {
	once  sync.Once
	mu    sync.Mutex
	names []string
	ask   chan struct{}
}

// asked returns a channel that has a value if there are names.
func (r *released) asked() chan struct{} {
	r.once.Do(func() { r.ask = make(chan struct{}, 1) })
	return r.ask
}

func (r *released) add(name string) {
	r.mu.Lock()
	r.names = append(r.names, name)
	r.mu.Unlock()
	select {
	case r.asked() <- struct{}{}:
	default:
	}
}

func (r *released) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.names
	r.names = nil
	return names
}
