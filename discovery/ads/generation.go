package ads

import (
	"github.com/pilotlight/pilotlight/discovery/model"
)

// generation is one push: the views of a mesh, and what it was made for.
type generation struct {
	*views
	number int64
	change model.Change
}

// follow makes the generation after g, which may be nil.
func (g *generation) follow(m *model.Mesh, c model.Change, in *interner) *generation {
	if g == nil {
		return &generation{views: (*views)(nil).follow(m, in), number: 1, change: c}
	}
	return &generation{views: g.views.follow(m, in), number: g.number + 1, change: c}
}

// renew returns a generation of the same mesh. It takes a view from g, unchanged, when a stream requests it.
func (g *generation) renew(in *interner) *generation {
	next := g.follow(g.mesh, g.change, in)
	next.number, next.work, next.span, next.same = g.number, g.work, g.span, true
	return next
}
