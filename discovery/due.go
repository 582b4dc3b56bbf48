package discovery

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// rest is how many times as long as a push took there is none after it: pushes cost a fifth of the time at most, where
// the ceiling allows for that.
const rest = 4

// due returns when to push; false where nothing changed, or where the first mesh waits for a source. A change that comes
// alone is pushed at once.
func (s *state) due(d Debounce) (time.Time, bool) {
	if !s.pushed && !s.complete() {
		return time.Time{}, false
	}
	due := s.last.Add(max(d.After, rest*s.took))
	if ceiling := s.first.Add(d.Max); due.After(ceiling) {
		due = ceiling
	}
	if due.Before(s.first) {
		due = s.first
	}
	return due, !s.first.IsZero()
}

// complete reports whether the first mesh can be made: every source has synced or is late. Where some are late, one must
// have synced that holds more than settings of the mesh: a mesh of nothing would take away from proxies all they have.
func (s *state) complete() bool {
	late, synced := false, false
	for _, t := range s.sources {
		switch {
		case t.settled:
			synced = synced || !t.onlySettings()
		case t.status.Late:
			late = true
		case t.waits():
			return false
		}
	}
	return synced || !late && len(s.sources) > 0
}

func (t *told) onlySettings() bool {
	for _, group := range t.groups {
		if !group.Settings() {
			return false
		}
	}
	return len(t.groups) > 0
}

// wake returns when there is something to do if nothing else happens; false for never.
func (s *state) wake(d Debounce) (time.Time, bool) {
	at, ok := s.due(d)
	sooner := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	for _, t := range s.sources {
		if t.waits() {
			sooner(t.deadline)
		}
		sooner(t.until)
	}
	return at, ok
}

// expire notes which deadlines have passed at now, and lets go what was held until now.
func (s *state) expire(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		t := s.sources[name]
		if t.waits() && !t.deadline.IsZero() && !now.Before(t.deadline) {
			t.status.Late = true
			s.say(slog.LevelError, "source has not synced in time, discovery goes on without it", "source", name, "timeout", s.patience.Sync,
				"reason", t.status.Error)
			if !s.pushed {
				s.begin(now)
			}
		}
		switch {
		case t.until.IsZero():
		case len(t.held) == 0:
			t.until = time.Time{}
			s.say(slog.LevelInfo, "groups are no longer held, for the source has them again", "source", name)
		case !now.Before(t.until):
			s.say(slog.LevelError, "groups are no longer held, for the time is over", "source", name, "groups", len(t.held))
			t.until = time.Time{}
			for _, key := range slices.Sorted(maps.Keys(t.held)) {
				s.note(t, groupKey{name, key}, t.groups[key], now)
				t.drop(key)
			}
			if t.feed == nil {
				delete(s.sources, name)
			}
		}
	}
}

// done notes when a push began and ended, as far as that is known yet.
func (s *state) done(began, ended time.Time) {
	s.last, s.build = ended, ended.Sub(began)
	s.spend(0)
}

// spend notes how long it took to offer the last push to every proxy.
func (s *state) spend(offering time.Duration) { s.took = s.build + offering }

// maxKeys is how many keys of a change are named.
const maxKeys = 16

// take returns the mesh of now and why it is new; nothing is left to push then.
func (s *state) take() (*model.Mesh, model.Change) {
	keys := make([]string, 0, len(s.changed))
	for key := range s.changed {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	change := model.Change{Since: s.first, Count: len(keys), Keys: slices.Clone(keys[:min(len(keys), maxKeys)])}
	s.first, s.pushed = time.Time{}, true
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
	var workloads []model.WorkloadChange
	for key, before := range s.changed {
		var now model.Group
		if t := s.sources[key.source]; t != nil {
			now = t.groups[key.key]
		}
		if !now.Covers(before) {
			return s.mesh.Next(s.groups())
		}
		for _, service := range now.Services {
			if !slices.Contains(before.Services, service) { // else only its object stands elsewhere now
				services = append(services, service)
			}
		}
		objects = append(objects, now.Objects...)
		workloads = append(workloads, model.WorkloadChanges(before, now)...)
	}
	if next, ok := s.mesh.With(services, objects, workloads...); ok {
		return next
	}
	return s.mesh.Next(s.groups())
}
