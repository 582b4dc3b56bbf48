package discovery

import (
	"context"
	"slices"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
