package discovery

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// state is what the sources have told, and since when there is something to push. It knows no clock.
type state struct {
	sources     map[string]*told
	pushed      bool
	first, last time.Time       // of the changes that are not pushed yet; zero without any
	changed     map[string]bool // groups, and whether each still has all that it had
	mesh        *model.Mesh     // the last one taken: the next shares with it what did not change
}

// told is what one source has told.
type told struct {
	groups map[string]model.Group
	synced bool

	// again holds the keys that a source has told since it was started, until it has synced: what it does not tell
	// again was deleted while it was away. Nil after that.
	again map[string]bool
}

func newState(sources map[string]Source) *state {
	s := &state{sources: map[string]*told{}, changed: map[string]bool{}}
	for name := range sources {
		s.sources[name] = &told{groups: map[string]model.Group{}}
	}
	return s
}

// apply takes what a source said at now.
func (s *state) apply(in said, now time.Time) {
	t := s.sources[in.source]
	if in.restart {
		t.again = map[string]bool{}
		return
	}
	changed := t.take(in.update)
	for key, whole := range changed {
		name := in.source + "/" + key
		before, again := s.changed[name]
		s.changed[name] = whole && (before || !again)
	}
	if len(changed) > 0 || !s.pushed {
		s.last = now
		if s.first.IsZero() {
			s.first = now
		}
	}
}

// take returns the keys that the update changes, and whether each group still has all that it had.
func (t *told) take(u model.Update) map[string]bool {
	changed := map[string]bool{}
	for key, group := range u.Groups {
		if t.again != nil {
			t.again[key] = true
		}
		before, had := t.groups[key]
		switch {
		case !group.Empty():
			t.groups[key] = group
			changed[key] = group.Covers(before)
		case had:
			delete(t.groups, key)
			changed[key] = false
		}
	}
	if !u.Synced {
		return changed
	}
	t.synced = true
	for key := range t.groups {
		if t.again != nil && !t.again[key] {
			delete(t.groups, key)
			changed[key] = false
		}
	}
	t.again = nil
	return changed
}

// due returns when to push; false where nothing changed, or a source has not synced.
func (s *state) due(d Debounce) (time.Time, bool) {
	for _, t := range s.sources {
		if !t.synced {
			return time.Time{}, false
		}
	}
	quiet, ceiling := s.last.Add(d.After), s.first.Add(d.Max)
	if quiet.After(ceiling) {
		quiet = ceiling
	}
	return quiet, !s.first.IsZero()
}

// maxKeys is how many keys of a change are named.
const maxKeys = 16

// take returns the mesh of now and why it is new; nothing is left to push then.
func (s *state) take() (*model.Mesh, model.Change) {
	keys := slices.Sorted(maps.Keys(s.changed))
	change := model.Change{Since: s.first, Count: len(keys), Keys: slices.Clone(keys[:min(len(keys), maxKeys)])}
	s.first, s.last, s.pushed = time.Time{}, time.Time{}, true
	s.mesh = s.next()
	clear(s.changed)
	return s.mesh, change
}

// next makes the mesh of now: by the short path where nothing but endpoints and routes changed, which costs what changed.
func (s *state) next() *model.Mesh {
	if s.mesh == nil {
		return model.New(s.groups())
	}
	var services []*model.Service
	var objects []*model.Object
	for changed, whole := range s.changed {
		if !whole {
			return s.mesh.Next(s.groups())
		}
		source, key, _ := strings.Cut(changed, "/")
		group := s.sources[source].groups[key]
		services, objects = append(services, group.Services...), append(objects, group.Objects...)
	}
	if next, ok := s.mesh.With(services, objects); ok {
		return next
	}
	return s.mesh.Next(s.groups())
}

// groups yields every group, by source and key: of two services that claim one host with equal right the same one wins
// in every replica.
func (s *state) groups() iter.Seq[model.Group] {
	return func(yield func(model.Group) bool) {
		for _, name := range slices.Sorted(maps.Keys(s.sources)) {
			groups := s.sources[name].groups
			for _, key := range slices.Sorted(maps.Keys(groups)) {
				if !yield(groups[key]) {
					return
				}
			}
		}
	}
}
