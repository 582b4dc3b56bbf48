package discovery

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Source tells groups of services and objects, and then what changes, until ctx is done. An error restarts it; it then
// tells everything again. A Source that returns nil has told all it ever will.
type Source interface {
	Run(ctx context.Context, updates chan<- model.Update) error
}

// Pusher takes each new mesh, and why there is one. Push is called by one goroutine at a time.
type Pusher interface {
	Push(*model.Mesh, model.Change)
}

// Debounce is how long changes are collected before they are pushed.
type Debounce struct {
	After time.Duration // a push follows a change after this long without another
	Max   time.Duration // but not later than this after the first one
}

// Server joins sources and a pusher.
type Server struct {
	Sources  map[string]Source // by the name that logs and state know it by
	Pusher   Pusher
	Debounce Debounce
	Log      *slog.Logger

	synced atomic.Bool
}

// Synced reports whether a mesh was pushed: until then a proxy would be told nothing.
func (s *Server) Synced() bool { return s.synced.Load() }

// said is an update, or a restart, of one source.
type said struct {
	source  string
	update  model.Update
	restart bool
}

// Run pushes a mesh for each burst of changes until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	var g errgroup.Group
	in := make(chan said)
	for name, source := range s.Sources {
		g.Go(func() error { return s.supervise(ctx, name, source, in) })
	}
	g.Go(func() error { return s.loop(ctx, in) })
	return g.Wait()
}

func (s *Server) loop(ctx context.Context, in <-chan said) error {
	state := newState(s.Sources)
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case said := <-in:
			now := time.Now()
			state.apply(said, now)
			if due, ok := state.due(s.Debounce); ok {
				timer.Reset(due.Sub(now))
			}
		case <-timer.C:
			s.push(state.take())
		}
	}
}

func (s *Server) push(mesh *model.Mesh, change model.Change) {
	s.Pusher.Push(mesh, change)
	s.synced.Store(true)
	s.Log.Info("pushed", "services", len(mesh.Services()), "changes", change.Count, "took", time.Since(change.Since))
}
