package ads

import (
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
