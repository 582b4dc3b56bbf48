package serviceentry

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Store tells configuration objects.
type Store interface {
	Run(ctx context.Context, updates chan<- model.Update) error
}

// Source tells what its Store tells, and the services that the objects declare.
type Source struct {
	Store Store
}

// Run passes updates on until the store ends.
func (s Source) Run(ctx context.Context, updates chan<- model.Update) error {
	var g errgroup.Group
	told := make(chan model.Update)
	g.Go(func() error {
		defer close(told)
		return s.Store.Run(ctx, told)
	})
	g.Go(func() error {
		for u := range told {
			select {
			case updates <- withServices(u):
			case <-ctx.Done():
			}
		}
		return nil
	})
	return g.Wait()
}

// GroupOf returns objects and the services that they declare.
func GroupOf(objects []*model.Object) model.Group {
	return model.Group{Objects: objects, Services: services(objects)}
}

// withServices returns u with the services of its objects added to their groups.
func withServices(u model.Update) model.Update {
	groups := make(map[string]model.Group, len(u.Groups))
	for key, g := range u.Groups {
		g.Services = append(services(g.Objects), g.Services...)
		groups[key] = g
	}
	return model.Update{Groups: groups, Synced: u.Synced}
}
