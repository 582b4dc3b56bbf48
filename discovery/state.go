package discovery

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// state is what the sources have told, and since when there is something to push. It knows no clock.
type state struct {
	sources     map[string]*told
	pushed      bool
	first, last time.Time // of the changes that are not pushed yet; zero without any
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
	s := &state{sources: map[string]*told{}}
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
	if t.take(in.update) || !s.pushed {
		s.last = now
		if s.first.IsZero() {
			s.first = now
		}
	}
}

// take reports whether the update changes anything.
func (t *told) take(u model.Update) (changed bool) {
	for key, group := range u.Groups {
		if t.again != nil {
			t.again[key] = true
		}
		_, had := t.groups[key]
		switch {
		case !group.Empty():
			t.groups[key] = group
			changed = true
		case had:
			delete(t.groups, key)
			changed = true
		}
	}
	if !u.Synced {
		return changed
	}
	t.synced = true
	for key := range t.groups {
		if t.again != nil && !t.again[key] {
			delete(t.groups, key)
			changed = true
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

// take returns the mesh of now; nothing is left to push then.
func (s *state) take() *model.Mesh {
	s.first, s.last, s.pushed = time.Time{}, time.Time{}, true
	return model.New(s.groups())
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
