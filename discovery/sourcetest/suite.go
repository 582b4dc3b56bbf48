package sourcetest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Registry is an empty registry, and the source that is tested.
type Registry struct {
	Source discovery.Source
	Host   func(name string) string   // of a service
	Put    func(name, address string) // registers a service with one endpoint, or changes it
	Delete func(name string)
	Spoil  func(name string) // makes the record of a service malformed, or registers one that is

	// Break makes every request to the registry fail, and Mend ends that.
	Break, Mend func()

	// Touch makes the registry report a change when nothing has changed.
	Touch func()

	// Lose removes services at one moment. It is needed where records are configuration objects, which are gone as soon as they are
	// deleted. It may be nil for a registry, whose services linger for a second: these are deleted one by one.
	Lose func(names ...string)

	// Faults returns the faults that the source reports outside of its updates, a line each. It may be nil.
	Faults func() []string
}

// long is how long the suite waits for an expected event, and quiet how long for an event that must not come.
const (
	long  = 20 * time.Second
	quiet = 300 * time.Millisecond
)

// Run tests the source of a registry. Each test starts a new registry.
func Run(t *testing.T, start func(t *testing.T) Registry) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, r Registry)
	}{
		{"it syncs once it has sent all it knew", syncs},
		{"it sends what is added, changed and removed", changes},
		{"an empty group deletes", deletes},
		{"nothing is sent when nothing changes", staysQuiet},
		{"a second run sends everything again", runsAgain},
		{"a stop ends it and its goroutines", stops},
		{"it stops though nobody takes its update", stopsUnheard},
		{"a malformed record costs itself, and is named", malformed},
		{"an error keeps the last good state, and shows", fails},
		{"most services that go at once are held", held},
		{"a thousand services", thousand},
	} {
		t.Run(test.name, func(t *testing.T) {
			goroutines := goleak.IgnoreCurrent()
			r := start(t)
			test.run(t, r)
			if err := left(goroutines); err != nil {
				t.Error(err)
			}
		})
	}
}

// left returns an error for goroutines that do not end. The registry itself may take seconds to write an answer that
// nobody reads any more.
func left(before goleak.Option) (err error) {
	for range 10 {
		if err = goleak.Find(before); err == nil {
			return nil
		}
	}
	return err
}

func syncs(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	r.Put("b", "10.0.0.2")
	run := follow(t, r)
	defer run.stop()
	run.untilSynced()
	run.want("a 10.0.0.1", "b 10.0.0.2")
	run.quietly("after it has synced")
}

func changes(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	run := serve(t, r)
	defer run.stop()
	run.await("a 10.0.0.1")
	r.Put("b", "10.0.0.2")
	run.await("a 10.0.0.1", "b 10.0.0.2")
	r.Put("a", "10.0.0.9")
	run.await("a 10.0.0.9", "b 10.0.0.2")
	r.Delete("b")
	run.await("a 10.0.0.9")
	r.Delete("a")
	run.await()
}

func deletes(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	r.Put("b", "10.0.0.2")
	run := follow(t, r)
	defer run.stop()
	run.untilSynced()
	before := len(run.groups)
	r.Delete("a")
	for empty := false; !empty; {
		for _, group := range run.next("the deletion").Groups {
			empty = empty || group.Empty()
		}
	}
	if run.want("b 10.0.0.2"); len(run.groups) >= before {
		t.Errorf("%d groups are left of %d", len(run.groups), before)
	}
}

func staysQuiet(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	run := follow(t, r)
	defer run.stop()
	run.untilSynced()
	r.Touch()
	run.quietly("though nothing changed")
}

func runsAgain(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	for range 2 {
		run := follow(t, r)
		run.untilSynced()
		run.want("a 10.0.0.1")
		run.stop()
	}
}

func stops(t *testing.T, r Registry) {
	goroutines := goleak.IgnoreCurrent()
	run := follow(t, r)
	run.untilSynced()
	run.stop()
	goleak.VerifyNone(t, goroutines)
}

func stopsUnheard(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	run := follow(t, r)
	run.stop()
}

func malformed(t *testing.T, r Registry) {
	r.Put("good", "10.0.0.1")
	r.Put("broken", "10.0.0.2")
	r.Spoil("never")
	run := serve(t, r)
	defer run.stop()
	run.await("broken 10.0.0.2", "good 10.0.0.1")
	run.awaitFault("never")
	r.Spoil("broken")
	run.awaitFault("broken")
	r.Put("good", "10.0.0.9")
	run.await("broken 10.0.0.2", "good 10.0.0.9") // the last good form stays
	r.Put("broken", "10.0.0.3")
	run.await("broken 10.0.0.3", "good 10.0.0.9")
	r.Delete("never")
	run.awaitNoFault()
}

func fails(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	run := serve(t, r)
	defer run.stop()
	run.await("a 10.0.0.1")
	r.Break()
	run.awaitFault("")
	run.stays("a 10.0.0.1")
	r.Mend()
	r.Put("b", "10.0.0.2")
	run.await("a 10.0.0.1", "b 10.0.0.2")
	run.awaitNoFault()
}

func held(t *testing.T, r Registry) {
	all := []string{"a 10.0.0.1", "b 10.0.0.2", "c 10.0.0.3", "d 10.0.0.4"}
	for _, line := range all {
		name, address, _ := strings.Cut(line, " ")
		r.Put(name, address)
	}
	run := servePatiently(t, r, discovery.Patience{Wipe: time.Hour, Linger: 3 * time.Second})
	defer run.stop()
	run.await(all...)
	r.lose("b", "c", "d")
	run.awaitFault("3 of 4 hosts are gone at once")
	run.stays(all...)
	if _, err := run.server.Release("tested"); err != nil {
		t.Error(err)
	}
	run.await(all[0])
	run.awaitNoFault()
}

func (r Registry) lose(names ...string) {
	if r.Lose != nil {
		r.Lose(names...)
		return
	}
	for _, name := range names {
		r.Delete(name)
	}
}

func thousand(t *testing.T, r Registry) {
	var want []string
	for i := range 1000 {
		name, address := fmt.Sprintf("s%04d", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250)
		r.Put(name, address)
		want = append(want, name+" "+address)
	}
	run := serve(t, r)
	defer run.stop()
	run.await(want...)
	r.Put("s0500", "10.9.9.9")
	want[500] = "s0500 10.9.9.9"
	run.await(want...)
}

// shown returns the services of a registry that a mesh has, a line for each: name and addresses.
func (r Registry) shown(m *model.Mesh, names map[string]string) []string {
	var out []string
	for _, s := range m.Services() {
		line := names[s.Host]
		if line == "" {
			line = s.Host
		}
		for _, e := range s.Endpoints {
			line += " " + e.Address
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// names maps the hosts of lines to the names that they begin with.
func (r Registry) names(lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		out[r.Host(name)] = name
	}
	return out
}

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
