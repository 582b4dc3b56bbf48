package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// syncTimeout is longer than any test that does not test the timeout.
const syncTimeout = 24 * time.Hour

// fakeOf sends the updates of the test, until it is broken.
type fakeOf[U any] struct {
	updates chan U
	broken  chan error
	starts  chan time.Time
}

func newFakeOf[U any]() fakeOf[U] {
	return fakeOf[U]{make(chan U), make(chan error), make(chan time.Time, 100)}
}

type fake = fakeOf[model.Update]

func newFake() fake { return newFakeOf[model.Update]() }

func (f fakeOf[U]) Run(ctx context.Context, updates chan<- U) error {
	f.starts <- time.Now()
	for {
		select {
		case u := <-f.updates:
			updates <- u
		case err := <-f.broken:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// recorder keeps the pushed meshes and their times.
type recorder struct {
	mu     sync.Mutex // a look comes before a push that the clock makes, and nothing else orders them
	pushes []push
	start  time.Time
	took   time.Duration // the result of Took
}

type push struct {
	After time.Duration
	Hosts []string
}

func (r *recorder) Push(m *model.Mesh, _ model.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pushes = append(r.pushes, push{time.Since(r.start), hosts(m)})
}

func (r *recorder) Took() time.Duration { return r.took }

// serve runs a server of sources in the test's bubble until the test ends.
func serve(t *testing.T, sources map[string]Source) (*Server, *recorder) {
	t.Helper()
	r := &recorder{start: time.Now()}
	s := &Server{
		Sources: sources, Pusher: r, Log: slog.New(slog.DiscardHandler),
		Debounce: Debounce{After: 100 * time.Millisecond, Max: time.Second},
		Patience: Patience{Sync: syncTimeout, Wipe: 30 * time.Second},
		random:   func() float64 { return 0 },
	}
	start(t, s)
	return s, r
}

// start runs a server until the test ends.
func start(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (r *recorder) want(t *testing.T, want ...push) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.pushes); diff != "" {
		t.Errorf("pushes (-want +got):\n%s", diff)
	}
}

// pass lets the bubble's time pass, and waits for everything that is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestServerDebounces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake()
		s, r := serve(t, map[string]Source{"a": a})
		a.updates <- update{"x": "0"}.model(false)
		if synctest.Wait(); s.Synced() {
			t.Error("synced before the first push")
		}
		a.updates <- update{"x": "1"}.model(true)
		r.want(t, push{0, []string{"x1"}})
		if !s.Synced() {
			t.Error("not synced after the first push")
		}
		pass(5 * time.Second)
		a.updates <- update{}.model(true) // nothing new
		pass(5 * time.Second)
		r.want(t, push{0, []string{"x1"}})
		for _, version := range []string{"2", "3", "4"} { // the first at once, the others together
			a.updates <- update{"x": version}.model(false)
			pass(10 * time.Millisecond)
		}
		pass(time.Second)
		start := 10 * time.Second
		r.want(t, push{0, []string{"x1"}}, push{start, []string{"x2"}}, push{start + 100*time.Millisecond, []string{"x4"}})
	})
}

// Endless changes: pushes do not wait for a pause.
func TestServerPushesEndlessChanges(t *testing.T) {
	for name, test := range map[string]struct {
		took    time.Duration // time of a push, until every proxy was offered it
		longest time.Duration // time without a push
	}{
		"pushes are cheap":                 {0, 100 * time.Millisecond},
		"pushes cost a part":               {50 * time.Millisecond, 200 * time.Millisecond},
		"pushes take longer than there is": {3 * time.Second, time.Second + 90*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newFake()
				_, r := serve(t, map[string]Source{"a": a})
				r.took = test.took
				a.updates <- update{"x": "1"}.model(true)
				for i := range 100 { // a change every 90 ms
					pass(90 * time.Millisecond)
					a.updates <- update{"x": fmt.Sprint(i)}.model(false)
				}
				synctest.Wait()
				longest := time.Duration(0)
				for i := range len(r.pushes) - 1 {
					longest = max(longest, r.pushes[i+1].After-r.pushes[i].After)
				}
				if longest != test.longest {
					t.Errorf("%d pushes, the longest time between two is %s, want %s", len(r.pushes), longest, test.longest)
				}
			})
		})
	}
}

func TestServerWaitsForEverySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(), newFake()
		_, r := serve(t, map[string]Source{"a": a, "b": b})
		a.updates <- update{"x": "1"}.model(true)
		b.updates <- update{"y": "1"}.model(false)
		pass(time.Hour)
		r.want(t)
		b.updates <- update{"z": "1"}.model(true)
		pass(time.Second)
		r.want(t, push{time.Hour, []string{"x1", "y1", "z1"}})
	})
}

func TestServerRestartsSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake()
		_, r := serve(t, map[string]Source{"a": a})
		start := <-a.starts
		a.updates <- update{"x": "1", "y": "1"}.model(true)
		pass(time.Second)
		for _, want := range []time.Duration{1, 2, 4, 8, 10, 10, 10} {
			broken := time.Now()
			a.broken <- errors.New("broken")
			if got := (<-a.starts).Sub(broken); got != want*time.Second {
				t.Errorf("restarted after %v, want %v", got, want*time.Second)
			}
		}
		r.want(t, push{0, []string{"x1", "y1"}}) // the last state stays

		a.updates <- update{"x": "1"}.model(true) // y was removed meanwhile
		again := time.Since(start)
		pass(longRun)
		r.want(t, push{0, []string{"x1", "y1"}}, push{again, []string{"x1"}})

		broken := time.Now()
		a.broken <- errors.New("broken")
		if got := (<-a.starts).Sub(broken); got != firstDelay {
			t.Errorf("after a long run restarted after %v, want %v", got, firstDelay)
		}
	})
}

// A registry that could not be reached for any time is followed again within ten seconds of its return; until then the
// source is started every few seconds.
func TestARegistryThatComesBackIsFollowedSoon(t *testing.T) {
	for _, random := range []float64{0, 0.5, 0.999} {
		synctest.Test(t, func(t *testing.T) {
			const away = time.Hour
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began, asked, back := time.Now(), 0, time.Duration(0)
			delays(func() float64 { return random }).Do(ctx, func() error {
				if asked++; time.Since(began) < away {
					return errors.New("away")
				}
				back = time.Since(began)
				return nil
			}, func(error, time.Duration) {})
			if late := back - away; late < 0 || late > 10*time.Second {
				t.Errorf("at random %v it is followed %s after its return, want 10 s at most", random, late)
			}
			if most := int(away / (5 * time.Second)); asked > most+10 {
				t.Errorf("at random %v it was asked %d times in %s, want %d at most", random, asked, away, most+10)
			}
		})
	}
}

// A source that ends without an error has nothing more to send.
func TestServerLeavesAFinishedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake()
		_, r := serve(t, map[string]Source{"a": a})
		<-a.starts
		a.updates <- update{"x": "1"}.model(true)
		a.broken <- nil
		pass(time.Hour)
		r.want(t, push{0, []string{"x1"}})
		if len(a.starts) > 0 {
			t.Error("it was started again")
		}
	})
}

// The groups of all sources are answered while the server runs, with what came after the last push; and a caller that leaves does not wait.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake()
		s, r := serve(t, map[string]Source{"a": a})
		groups := func() (hosts []string) {
			all, err := s.Groups(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range all {
				for _, service := range g.Services {
					hosts = append(hosts, service.Host)
				}
			}
			return hosts
		}
		if got := groups(); len(got) != 0 {
			t.Errorf("before the first update: %q", got)
		}
		one := func(host string) map[string]model.Group {
			return map[string]model.Group{host: {Services: []*model.Service{{Right: model.RightFull, Host: host}}}}
		}
		a.updates <- model.Update{Groups: one("one"), Synced: true}
		r.want(t, push{0, []string{"one"}})
		a.updates <- model.Update{Groups: one("two")}
		synctest.Wait()
		if got := groups(); len(got) != 2 || got[0] != "one" || got[1] != "two" {
			t.Errorf("got %q", got)
		}
		<-time.After(time.Second) // a reader does not keep the push away
		r.want(t, push{0, []string{"one"}}, push{100 * time.Millisecond, []string{"one", "two"}})
	})
	idle := &Server{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := idle.Groups(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a server that does not run: %v", err)
	}
}
