package ads

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// generation is one push: the views of a mesh, and what it was made for.
type generation struct {
	*content.Views
	number int64
	change model.Change
}

// follow makes the generation after g, which may be nil.
func (g *generation) follow(m *model.Mesh, c model.Change, in *content.Interner) *generation {
	if g == nil {
		return &generation{Views: (*content.Views)(nil).Follow(m, in), number: 1, change: c}
	}
	return &generation{Views: g.Views.Follow(m, in), number: g.number + 1, change: c}
}

// renew returns a generation of the same mesh. It takes a view from g, unchanged, when a stream requests it.
func (g *generation) renew(in *content.Interner) *generation {
	next := g.follow(g.Mesh, g.change, in)
	next.number, next.Work, next.Span, next.Same = g.number, g.Work, g.Span, true
	return next
}

// pusherCount is how many goroutines offer a new generation to all streams.
const pusherCount = 2

// pushers go over all streams for each generation. A newer one replaces the round of an older.
type pushers struct {
	round *atomic.Pointer[round]
	kick  chan struct{}
}

type round struct {
	streams []*stream
	began   time.Time
	next    atomic.Int64
	offered atomic.Int64
	took    atomic.Int64 // nanoseconds, once every stream was offered the generation
}

func newPushers() pushers {
	return pushers{round: &atomic.Pointer[round]{}, kick: make(chan struct{}, pusherCount)}
}

// start marks all streams first: a stream that is sending sees the mark when it has finished.
func (p pushers) start(streams []*stream) {
	for _, st := range streams {
		st.dirty.Store(true)
	}
	p.round.Store(&round{streams: streams, began: time.Now()})
	for range pusherCount {
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
}

func (p pushers) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		}
		for {
			r := p.round.Load()
			i := r.next.Add(1) - 1
			if int(i) >= len(r.streams) || ctx.Err() != nil {
				break
			}
			r.streams[i].offer()
			if int(r.offered.Add(1)) == len(r.streams) {
				r.took.Store(int64(time.Since(r.began)))
			}
		}
	}
}

// took returns the duration of the last round, or its duration so far.
func (p pushers) took(now time.Time) time.Duration {
	r := p.round.Load()
	switch {
	case r == nil || len(r.streams) == 0:
		return 0
	case r.took.Load() > 0:
		return time.Duration(r.took.Load())
	}
	return now.Sub(r.began)
}

// A generation makes a view when a stream first needs it, and holds it until the next change but one. So that views of
// closed streams do not accumulate meanwhile, the generation is replaced by one of the same mesh that takes over only
// the views in use. Proxies that lose their connection for a moment find their view again.
const cleanUpInterval = 5 * time.Second

// runCleanUp drops views that no stream uses any more until ctx is done.
func (s *Server) runCleanUp(ctx context.Context) {
	tick := time.NewTicker(cleanUpInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.cleanUp()
		}
	}
}

// cleanUp drops the views of the current generation that no stream uses.
func (s *Server) cleanUp() {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	if g := s.current.Load(); g != nil && g.HasUnused(s.readers()) {
		s.current.Store(g.renew(s.names))
		s.pushers.start(s.all())
	}
	s.viewLimiter.forget()
}

// readers returns the readers of all streams.
func (s *Server) readers() map[content.Reader]bool {
	out := map[content.Reader]bool{}
	for _, st := range s.all() {
		st.mu.Lock()
		if st.identified() {
			out[st.reader] = true
		}
		st.mu.Unlock()
	}
	return out
}
