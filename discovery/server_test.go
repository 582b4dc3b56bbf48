package discovery

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake tells what the test tells it, until it is broken.
type fake struct {
	updates chan model.Update
	broken  chan error
	starts  chan time.Time
}

func newFake() fake {
	return fake{make(chan model.Update), make(chan error), make(chan time.Time, 100)}
}

func (f fake) Run(ctx context.Context, updates chan<- model.Update) error {
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

// recorder keeps what was pushed, and when.
type recorder struct{ pushes []push }

type push struct {
	After time.Duration
	Hosts []string
}

func (r *recorder) record(start time.Time) pusherFunc {
	return func(m *model.Mesh) { r.pushes = append(r.pushes, push{time.Since(start), hosts(m)}) }
}

type pusherFunc func(*model.Mesh)

func (f pusherFunc) Push(m *model.Mesh, _ model.Change) { f(m) }

// serve runs a server of sources in the test's bubble until the test ends.
func serve(t *testing.T, sources map[string]Source) (*Server, *recorder) {
	t.Helper()
	var r recorder
	s := &Server{
		Sources: sources, Pusher: r.record(time.Now()), Log: slog.New(slog.DiscardHandler),
		Debounce: Debounce{After: 100 * time.Millisecond, Max: time.Second},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, &r
}

func (r *recorder) want(t *testing.T, want ...push) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, r.pushes); diff != "" {
		t.Errorf("pushes (-want +got):\n%s", diff)
	}
}

// pass lets the bubble's time go by, and everything happen that is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestServerDebounces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake()
		s, r := serve(t, map[string]Source{"a": a})
		a.updates <- update{"x": "1"}.model(true)
		if synctest.Wait(); s.Synced() {
			t.Error("synced before the first push")
		}
		pass(99 * time.Millisecond)
		r.want(t)
		a.updates <- update{"x": "2"}.model(false)
		pass(5 * time.Second)
		r.want(t, push{199 * time.Millisecond, []string{"x2"}})
		if !s.Synced() {
			t.Error("not synced after the first push")
		}

		a.updates <- update{}.model(true) // nothing new
		pass(5 * time.Second)
		for range 15 { // a burst of 1.5 s: pushed at the ceiling, and the rest once quiet
			a.updates <- update{"y": "1"}.model(false)
			pass(99 * time.Millisecond)
		}
		pass(time.Second)
		start := 10*time.Second + 99*time.Millisecond
		r.want(
			t, push{199 * time.Millisecond, []string{"x2"}},
			push{start + time.Second, []string{"x2", "y1"}},
			push{start + 14*99*time.Millisecond + 100*time.Millisecond, []string{"x2", "y1"}},
		)
	})
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
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			broken := time.Now()
			a.broken <- errors.New("broken")
			if got := (<-a.starts).Sub(broken); got != want*time.Second {
				t.Errorf("restarted after %v, want %v", got, want*time.Second)
			}
		}
		r.want(t, push{100 * time.Millisecond, []string{"x1", "y1"}}) // the last state stays

		a.updates <- update{"x": "1"}.model(true) // y went away meanwhile
		again := time.Since(start)
		pass(lastDelay)
		r.want(t, push{100 * time.Millisecond, []string{"x1", "y1"}}, push{again + 100*time.Millisecond, []string{"x1"}})

		broken := time.Now()
		a.broken <- errors.New("broken")
		if got := (<-a.starts).Sub(broken); got != firstDelay {
			t.Errorf("after a long run restarted after %v, want %v", got, firstDelay)
		}
	})
}

// A source that ends without an error has nothing more to tell.
func TestServerLeavesAFinishedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake()
		_, r := serve(t, map[string]Source{"a": a})
		<-a.starts
		a.updates <- update{"x": "1"}.model(true)
		a.broken <- nil
		pass(time.Hour)
		r.want(t, push{100 * time.Millisecond, []string{"x1"}})
		if len(a.starts) > 0 {
			t.Error("it was started again")
		}
	})
}
