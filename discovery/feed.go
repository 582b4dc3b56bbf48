package discovery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/internal/retry"
)

// A source that fails is started again after firstDelay, then twice as long each time, up to lastDelay: so a registry
// that comes back after a long outage is followed within lastDelay. After a run of at least longRun the delay begins
// again at firstDelay.
const (
	firstDelay = time.Second
	lastDelay  = 10 * time.Second
	longRun    = 30 * time.Second
)

// delays returns the times between the starts of a source. Replicas that lost one registry do not all reconnect at once.
func delays(random func() float64) retry.Delays {
	return retry.Delays{First: firstDelay, Last: lastDelay, Long: longRun, Random: random}
}

// runner is a Source or a secret.Source: it sends updates of one type.
type runner[U any] interface {
	Run(ctx context.Context, updates chan<- U) error
}

// feedOf is a source under a name. A source that is added again is another feed, so that updates of the old one can be
// told apart.
type feedOf[U any] struct {
	name   string
	source runner[U]
}

// eventOf is an event of a feed: it was started, it sent an update, or it ended.
type eventOf[U any] struct {
	feed    *feedOf[U]
	update  U
	started bool
	ended   bool
	err     error         // of its end; nil when it has nothing more to send
	restart time.Duration // after its end
}

// running are the feeds that run, each in a goroutine that sends its events.
type running[U any] struct {
	random func() float64
	events chan eventOf[U]
	stops  map[*feedOf[U]]context.CancelFunc
	all    errgroup.Group
}

func newRunning[U any](random func() float64) *running[U] {
	return &running[U]{random: random, events: make(chan eventOf[U]), stops: map[*feedOf[U]]context.CancelFunc{}}
}

// change starts and stops feeds. Those that it starts end with ctx. It does not wait for those that it stops.
func (r *running[U]) change(ctx context.Context, start, stop []*feedOf[U]) {
	for _, f := range stop {
		r.stops[f]()
		delete(r.stops, f)
	}
	for _, f := range start {
		var own context.Context
		own, r.stops[f] = context.WithCancel(ctx)
		r.all.Go(func() error { r.supervise(own, f); return nil })
	}
}

// end stops all feeds, and waits for all, including those that were stopped before. It receives no events: the context of
// change must be done.
func (r *running[U]) end() error {
	for _, stop := range r.stops {
		stop()
	}
	return r.all.Wait()
}

// supervise runs one feed again and again until ctx is done or its source has nothing more to send.
func (r *running[U]) supervise(ctx context.Context, f *feedOf[U]) {
	delays(r.random).Do(ctx, func() error { return r.follow(ctx, f) }, func(err error, pause time.Duration) {
		r.send(ctx, eventOf[U]{feed: f, ended: true, err: err, restart: pause})
	})
	if ctx.Err() == nil {
		r.send(ctx, eventOf[U]{feed: f, ended: true})
	}
}

// follow runs the source of a feed once and sends its events.
func (r *running[U]) follow(ctx context.Context, f *feedOf[U]) error {
	r.send(ctx, eventOf[U]{feed: f, started: true})
	var g errgroup.Group
	updates := make(chan U)
	g.Go(func() error {
		defer close(updates)
		return f.source.Run(ctx, updates)
	})
	g.Go(func() error {
		for u := range updates {
			r.send(ctx, eventOf[U]{feed: f, update: u})
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("run source %s: %w", f.name, err)
	}
	return nil
}

func (r *running[U]) send(ctx context.Context, e eventOf[U]) {
	select {
	case r.events <- e:
	case <-ctx.Done():
	}
}

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
