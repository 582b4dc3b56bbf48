package sourcetest

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// following is a run of a source whose updates the test receives one by one.
type following struct {
	t       *testing.T
	r       Registry
	updates chan model.Update
	done    chan error
	cancel  context.CancelFunc
	groups  map[string]model.Group // as the updates left them
}

func follow(t *testing.T, r Registry) *following {
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{t, r, make(chan model.Update), make(chan error, 1), cancel, map[string]model.Group{}}
	go func() { f.done <- r.Source.Run(ctx, f.updates) }()
	return f
}

// stop ends the run, and applies no further update.
func (f *following) stop() {
	f.t.Helper()
	f.cancel()
	ended(f.t, f.done)
}

// ended waits for the end of a run whose context is done.
func ended(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("stopped, it returns %v, want nil", err)
		}
	case <-time.After(long):
		t.Fatal("it does not end with its context")
	}
}

func (f *following) next(what string) model.Update {
	f.t.Helper()
	select {
	case u := <-f.updates:
		for key, group := range u.Groups {
			if f.groups[key] = group; group.Empty() {
				delete(f.groups, key)
			}
		}
		return u
	case err := <-f.done:
		f.t.Fatalf("it ended with %v before %s", err, what)
	case <-time.After(long):
		f.t.Fatalf("it did not send %s", what)
	}
	return model.Update{}
}

func (f *following) untilSynced() {
	f.t.Helper()
	for !f.next("that it has synced").Synced {
	}
}

func (f *following) quietly(when string) {
	f.t.Helper()
	select {
	case u := <-f.updates:
		f.t.Errorf("%s it sends %d groups: %v", when, len(u.Groups), slices.Sorted(maps.Keys(u.Groups)))
	case <-time.After(quiet):
	}
}

func (f *following) want(lines ...string) {
	f.t.Helper()
	mesh := model.New(maps.Values(f.groups))
	if got := f.r.shown(mesh, f.r.names(lines)); !slices.Equal(got, lines) {
		f.t.Errorf("the services are %q, want %q", got, lines)
	}
}

// serving is a server of the source alone.
type serving struct {
	t      *testing.T
	r      Registry
	server *discovery.Server
	meshes chan *model.Mesh // the newest
	mesh   *model.Mesh
	done   chan error
	cancel context.CancelFunc
}

// Push keeps the newest mesh.
func (s *serving) Push(m *model.Mesh, _ model.Change) {
	select {
	case <-s.meshes:
	default:
	}
	s.meshes <- m
}

// Took returns 0: pushes take no time.
func (s *serving) Took() time.Duration { return 0 }

func serve(t *testing.T, r Registry) *serving { return servePatiently(t, r, discovery.Patience{}) }

func servePatiently(t *testing.T, r Registry, p discovery.Patience) *serving {
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{t: t, r: r, meshes: make(chan *model.Mesh, 1), done: make(chan error, 1), cancel: cancel}
	s.server = &discovery.Server{
		Sources: map[string]discovery.Source{"tested": r.Source}, Pusher: s, Log: slog.New(slog.DiscardHandler),
		Debounce: discovery.Debounce{Max: time.Second}, Patience: p,
	}
	go func() { s.done <- s.server.Run(ctx) }()
	return s
}

func (s *serving) stop() {
	s.t.Helper()
	s.cancel()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Error(err)
		}
	case <-time.After(long):
		s.t.Fatal("the server does not end")
	}
}

// await waits until the mesh has these services and no others.
func (s *serving) await(lines ...string) {
	s.t.Helper()
	names, deadline := s.r.names(lines), time.After(long)
	for s.mesh == nil || !slices.Equal(s.r.shown(s.mesh, names), lines) {
		select {
		case s.mesh = <-s.meshes:
		case <-deadline:
			if s.mesh == nil {
				s.t.Fatalf("there is no mesh; %q", s.faults())
			}
			s.t.Fatalf("the services are %.2000q, want %.2000q; %q", s.r.shown(s.mesh, names), lines, s.faults())
		}
	}
}

// stays waits for a while, and fails if the services change.
func (s *serving) stays(lines ...string) {
	s.t.Helper()
	select {
	case s.mesh = <-s.meshes:
	case <-time.After(quiet):
	}
	if got := s.r.shown(s.mesh, s.r.names(lines)); !slices.Equal(got, lines) {
		s.t.Errorf("the services are %q, want %q", got, lines)
	}
}

// faults returns the faults that discovery shows to users.
func (s *serving) faults() (out []string) {
	for _, now := range s.server.Statuses() {
		out = append(out, now.Lines()...)
	}
	if s.r.Faults != nil {
		out = append(out, s.r.Faults()...)
	}
	return out
}

// awaitFault waits until a fault names a record.
func (s *serving) awaitFault(name string) {
	s.t.Helper()
	s.until(func(faults []string) bool {
		return slices.ContainsFunc(faults, func(line string) bool { return strings.Contains(line, name) })
	}, "one that names "+name)
}

func (s *serving) awaitNoFault() {
	s.t.Helper()
	s.until(func(faults []string) bool { return len(faults) == 0 }, "none")
}

func (s *serving) until(ok func(faults []string) bool, want string) {
	s.t.Helper()
	for deadline := time.After(long); !ok(s.faults()); {
		select {
		case <-deadline:
			s.t.Fatalf("the faults are %q, want %s", s.faults(), want)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
